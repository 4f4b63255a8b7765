"""From a job's `source` to the source itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workers.errors import InvalidInput
from workers.jobs import JsonScalar
from workers.spark.inputs.files import FileSource
from workers.spark.inputs.rivals import DemoBackfill, DemoEvolve
from workers.spark.inputs.source import Asked, Source, Surroundings
from workers.spark.inputs.streams import DemoStream
from workers.table.table import Table

_KINDS: Mapping[str, Callable[[Asked, Surroundings], Source]] = {
    "csv": FileSource.from_asked,
    "parquet": FileSource.from_asked,
    "demo_stream": lambda job_source, around: DemoStream.from_asked(job_source),
    "demo_backfill": DemoBackfill.from_asked,
    "demo_evolve": DemoEvolve.from_asked,
}


def open_source(
    values: Mapping[str, JsonScalar],
    *,
    table: Table,
    writer: str,
    environment: Mapping[str, str],
) -> Source:
    """Raises InvalidInput for an unknown kind, key or value."""
    kind = str(values.get("kind"))
    if kind not in _KINDS:
        raise InvalidInput("source kind is unknown", kind=kind, known=sorted(_KINDS))
    return _KINDS[kind](Asked(values), Surroundings(table, writer, environment))
