"""From a job's `source` to the source itself: a file, or what an input module knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from workers.errors import InvalidInput
from workers.jobs import JsonScalar
from workers.spark.input_modules import INPUTS_VARIABLE, modules_named
from workers.spark.inputs.files import FileSource
from workers.spark.inputs.source import JobSource, Source, Surroundings
from workers.table.table import Table

Opener = Callable[[JobSource, Surroundings], Source]

_FILES: Final[Mapping[str, Opener]] = {
    "csv": FileSource.from_job,
    "json": FileSource.from_job,
    "parquet": FileSource.from_job,
}


def open_source(
    values: Mapping[str, JsonScalar],
    *,
    table: Table,
    writer: str,
    environment: Mapping[str, str],
    scratch: Path,
) -> Source:
    """The source that a job names, with its values checked.

    Input modules are loaded for a kind that is no file's, and never to read a file.

    Raises InvalidInput for an unknown kind, key or value, or an input module that does not load.
    """
    kind = str(values.get("kind"))
    known = _FILES if kind in _FILES else {**_FILES, **_openers(environment)}
    if kind not in known:
        raise InvalidInput("source kind is unknown", kind=kind, known=sorted(known))
    return known[kind](JobSource(values), Surroundings(table, writer, environment, scratch))


def _openers(environment: Mapping[str, str]) -> dict[str, Opener]:
    openers: dict[str, Opener] = {}
    for name in modules_named(environment):
        try:
            module = import_module(name)
        except ImportError as error:
            raise InvalidInput(
                "an input module does not load", module=name, variable=INPUTS_VARIABLE
            ) from error
        openers.update(module.INPUTS)
    return openers
