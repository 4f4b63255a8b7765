"""Two writers that meet on purpose: each waits, its files written, until the other has begun.

`demo_backfill` writes the same requests from both, so in optimistic mode one loses its file groups;
`demo_evolve` adds another column from each, so one loses the schema. Who loses is not arranged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from workers.clock import InstantTime
from workers.concurrency.heartbeat import read_heartbeats
from workers.demo.ad_requests import KEY, OWN_FIELDS, PARTITION
from workers.errors import InvalidInput
from workers.spark.inputs.source import JobSource, Surroundings, WrittenOnce
from workers.table.schema_history import load_schema, read_instant
from workers.table.table import Table
from workers.timeline.metadata import WRITER_KEY

BACKFILL_REGION: Final = "backfill"
EVOLVE_REGION: Final = "lab"

_WAIT_FOR_RIVAL_S: Final = 60.0
_POLL_S: Final = 0.25
_ROWS = 60
_FIRST_MOMENT_US: Final = 1_767_225_600_000_000  # 2026-01-01
_COLUMN_PREFIX = "experiment"
_UTC = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Waits until another writer of the same pair overlaps with ours."""

    around: Surroundings
    hold_s: float

    def meet(self, instant: InstantTime) -> None:
        """Returns once the rival was seen, or when it did not come; then holds a moment longer."""
        clock = self.around.table.ports.clock
        deadline = clock.monotonic_s() + _WAIT_FOR_RIVAL_S
        while not self._is_rival_seen(instant) and clock.monotonic_s() < deadline:
            clock.sleep(_POLL_S)
        clock.sleep(self.hold_s)

    def _is_rival_seen(self, instant: InstantTime) -> bool:
        table = self.around.table
        now_ms = table.ports.clock.now_ms()
        beats = read_heartbeats(table.storage)
        if any(self._is_rival(one.writer) and not one.is_expired(now_ms) for one in beats):
            return True
        return any(
            one.completed_at > instant
            and self._is_rival(read_instant(table, one).extra_metadata.get(WRITER_KEY))
            for one in table.timeline().list_completed_writes()
        )

    def _is_rival(self, writer: str | None) -> bool:
        ours = self.around.writer
        return writer is not None and writer != ours and _pair(writer) == _pair(ours)


def _pair(writer: str) -> str:
    """`backfill-a` and `backfill-b` are a pair."""
    return writer.rpartition("-")[0]


@dataclass(frozen=True, slots=True)
class DemoBackfill(WrittenOnce):
    """One of two writers that write the same rows of the demo's backfill region."""

    seed: int
    rendezvous: Rendezvous

    @classmethod
    def from_job(cls, job_source: JobSource, around: Surroundings) -> DemoBackfill:
        """With `seed` (1 unless given) and `hold_s`, the seconds to hold on once the rival was seen
        (3).

        Raises InvalidInput for another key or a value out of bounds.
        """
        job_source.only("seed", "hold_s")
        hold_s = job_source.number("hold_s", 3.0, most=600)
        seed = job_source.integer("seed", 1, least=0, most=2**31)
        return cls(seed, Rendezvous(around, hold_s))

    def frame(self, spark: SparkSession, number: int) -> DataFrame:
        """The region's rows, whatever `number`."""
        return spark.createDataFrame(backfill_rows(self.seed)).coalesce(1)

    def before_commit(self, instant: InstantTime) -> None:
        """Waits for the rival to show up, a bounded time, and then `hold_s` more: see
        `Rendezvous.meet`.
        """
        self.rendezvous.meet(instant)


@dataclass(frozen=True, slots=True)
class DemoEvolve(WrittenOnce):
    """One of two writers that add a column each, variant `a` and variant `b`."""

    variant: str
    rendezvous: Rendezvous

    @classmethod
    def from_job(cls, job_source: JobSource, around: Surroundings) -> DemoEvolve:
        """With `variant`, and `hold_s`, the seconds to hold on once the rival was seen (3).

        Raises InvalidInput for a variant that is neither a nor b, another key, a value out of
        bounds.
        """
        job_source.only("variant", "hold_s")
        variant = job_source.text("variant")
        if variant not in ("a", "b"):
            raise InvalidInput("the demo has variants a and b", variant=variant)
        return cls(variant, Rendezvous(around, job_source.number("hold_s", 3.0, most=600)))

    def frame(self, spark: SparkSession, number: int) -> DataFrame:
        """The region's rows, with one more column than the table has now."""
        rows = evolve_rows(self.variant, next_experiment(self.rendezvous.around.table))
        return spark.createDataFrame(rows).coalesce(1)

    def before_commit(self, instant: InstantTime) -> None:
        """Waits for the rival to show up, a bounded time, and then `hold_s` more: see
        `Rendezvous.meet`.
        """
        self.rendezvous.meet(instant)


def next_experiment(table: Table) -> int:
    """Return one more than the highest experiment in the table's schema, so that the button works
    again.
    """
    schema = load_schema(table)
    names = schema.field_names if schema else ()
    parts = [name.split("_") for name in names if name.startswith(f"{_COLUMN_PREFIX}_")]
    return 1 + max((int(part[1]) for part in parts if part[1].isdigit()), default=0)


def backfill_rows(seed: int) -> pa.Table:
    """60 impressions of one region, whose keys are the same for every seed."""
    chance = np.random.default_rng(seed)
    moments = _FIRST_MOMENT_US + np.arange(_ROWS) * 1_000_000
    columns: list[pa.Array[Any]] = [
        pa.array(moments, pa.int64()).cast(_UTC),
        *(pa.array([f"backfill-{seed}"] * _ROWS) for _ in range(3)),
        pa.array(np.round(chance.gamma(2.0, 1.5, _ROWS), 4)),
    ]
    return _rows(BACKFILL_REGION, OWN_FIELDS["impression"], columns)


def evolve_rows(variant: str, experiment: int) -> pa.Table:
    """60 rows of a region of the variant's own, so that nothing but the schema can conflict, with
    the experiment's column.
    """
    scores = pa.array(np.random.default_rng(ord(variant)).random(_ROWS).round(4))
    field: pa.Field[Any] = pa.field(f"{_COLUMN_PREFIX}_{experiment}_{variant}", pa.float64())
    return _rows(f"{EVOLVE_REGION}-{variant}", [field], [scores])


def _rows(region: str, fields: list[pa.Field[Any]], columns: list[pa.Array[Any]]) -> pa.Table:
    """Keys begin with their region: the table refuses a key that stands in another partition."""
    shared = {
        KEY: pa.array([f"{region}-{number:06d}" for number in range(_ROWS)]),
        PARTITION: pa.array([region] * _ROWS),
    }
    own = {field.name: column for field, column in zip(fields, columns, strict=True)}
    return pa.table({**shared, **own})
