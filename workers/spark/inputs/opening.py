"""From a job's `source` to the source itself: a file, a topic, a query, or of an input module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from workers.errors import InvalidInput
from workers.jobs import JsonScalar
from workers.spark.input_modules import INPUTS_VARIABLE, modules_named
from workers.spark.inputs.files import FileSource
from workers.spark.inputs.kafka import KafkaSource
from workers.spark.inputs.source import JobSource, Source, Surroundings
from workers.table.table import Table

Opener = Callable[[JobSource, Surroundings], Source]

_OWN: Final[Mapping[str, Opener]] = {
    "arrow": FileSource.from_job,
    "csv": FileSource.from_job,
    "json": FileSource.from_job,
    "kafka": KafkaSource.from_job,
    "parquet": FileSource.from_job,
}
_ABOVE: Final = "workers.query_inputs"
"""Of every driver, too: it computes with tables, which stand above Spark, so it is loaded late."""


def open_source(
    values: Mapping[str, JsonScalar],
    *,
    table: Table,
    writer: str,
    environment: Mapping[str, str],
    scratch: Path,
) -> Source:
    """The source that a job names, with its values checked.

    Input modules are loaded for other kinds than those of every driver.

    Raises InvalidInput for an unknown kind, key or value, or an input module that does not load.
    """
    kind = str(values.get("kind"))
    known = _OWN if kind in _OWN else {**_OWN, **_openers(environment)}
    if kind not in known:
        raise InvalidInput("source kind is unknown", kind=kind, known=sorted(known))
    return known[kind](JobSource(values), Surroundings(table, writer, environment, scratch))


def _openers(environment: Mapping[str, str]) -> dict[str, Opener]:
    openers: dict[str, Opener] = dict(import_module(_ABOVE).INPUTS)
    for name in modules_named(environment):
        try:
            module = import_module(name)
        except ImportError as error:
            raise InvalidInput(
                "an input module does not load", module=name, variable=INPUTS_VARIABLE
            ) from error
        openers.update(module.INPUTS)
    return openers
