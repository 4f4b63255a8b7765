"""The set `wide`: three streams, each with ten doubles and an event time of its own for every key.

A stream brings all keys once, then a few rounds with a part of them. Event times are drawn at
random, so that about every second version of a round is older than what stands. `newest_versions`
computes by NumPy alone which version of each key is the last: what the join's plain tables hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.dataset import texts

STREAMS: Final = ("a", "b", "c")
COLUMNS: Final = 10
_TIME_MAX: Final = 10**12
_VERSION = 1

_Ids = npt.NDArray[np.int64]


def columns_of(stream: str) -> list[str]:
    return [f"{stream}{n}" for n in range(COLUMNS)]


def stream_schema(stream: str) -> pa.Schema:
    types: dict[str, pa.DataType] = {"key": pa.string(), f"ts_{stream}": pa.int64()}
    return pa.schema(types | dict.fromkeys(columns_of(stream), pa.float64()))


SCHEMA: Final = pa.unify_schemas([stream_schema(name) for name in STREAMS])
GROUPS: Final = [
    {"name": stream, "ordering": [f"ts_{stream}"], "columns": columns_of(stream)}
    for stream in STREAMS
]


@dataclass(frozen=True, slots=True)
class Versions:
    """A batch of one stream: its keys in their order of arrival, each once."""

    ids: _Ids
    times: _Ids
    seed: tuple[int, ...]

    @classmethod
    def drawn(cls, stream: str, number: int, *, keys: int, count: int) -> Versions:
        seed = (_VERSION, STREAMS.index(stream), number)
        chance = np.random.default_rng(seed)
        ids = chance.choice(keys, size=count, replace=False)
        return cls(ids, chance.integers(0, _TIME_MAX, count), seed)

    def values(self) -> npt.NDArray[np.float64]:
        """A row per column."""
        return np.random.default_rng((*self.seed, 1)).normal(size=(COLUMNS, len(self.ids)))

    def table(self, stream: str) -> pa.Table:
        return _table(stream, self.ids, self.times, self.values())


def newest_versions(stream: str, batches: list[Versions], keys: int) -> pa.Table:
    """Of every key the version with the greatest event time, of equal ones the last."""
    times = np.full(keys, -1, np.int64)
    values = np.zeros((COLUMNS, keys))
    for batch in batches:
        wins = batch.times >= times[batch.ids]
        times[batch.ids[wins]] = batch.times[wins]
        values[:, batch.ids[wins]] = batch.values()[:, wins]
    ids = np.random.default_rng((_VERSION, STREAMS.index(stream))).permutation(
        np.flatnonzero(times >= 0)
    )
    return _table(stream, ids, times[ids], values[:, ids])


def _table(stream: str, ids: _Ids, times: _Ids, values: npt.NDArray[np.float64]) -> pa.Table:
    columns: list[Any] = [texts("k", ids, 12), pa.array(times), *map(pa.array, values)]
    return pa.table(columns, schema=stream_schema(stream))


def all_streams(keys: int) -> pa.Table:
    """Whole rows: what every stream says first of every key."""
    drawn = [Versions.drawn(name, 0, keys=keys, count=keys) for name in STREAMS]
    ids = drawn[0].ids
    tables = [
        _table(name, ids, one.times, one.values()) for name, one in zip(STREAMS, drawn, strict=True)
    ]
    whole = tables[0]
    for table in tables[1:]:
        for name in table.column_names[1:]:
            whole = whole.append_column(name, table.column(name))
    return whole


def partial_update(stream: str, number: int, *, keys: int, share: float) -> pa.Table:
    """A stream's newer values for a part of the keys, newer than all rounds before."""
    chance = np.random.default_rng((_VERSION, 7, STREAMS.index(stream), number))
    ids = chance.choice(keys, size=int(keys * share), replace=False)
    times = chance.integers(0, 10**6, len(ids)) + _TIME_MAX + number * 10**6
    return _table(stream, ids, times, chance.normal(size=(COLUMNS, len(ids))))


NARROW: Final[dict[str, Any]] = {"name": "n", "ordering": ["ts"], "columns": ["c0", "c1", "c2"]}
_HUNDRED: dict[str, pa.DataType] = {
    "key": pa.string(),
    "ts": pa.int64(),
    **{f"c{n}": pa.float64() for n in range(100)},
}
HUNDRED: Final = pa.schema(_HUNDRED)


def hundred_rows(ids: _Ids, number: int) -> pa.Table:
    """Rows of a hundred doubles; a later number gives newer versions."""
    chance = np.random.default_rng((_VERSION, 100, number))
    times = chance.integers(0, 10**9, len(ids)) + number * 10**9
    values = chance.normal(size=(100, len(ids)))
    columns: list[Any] = [texts("k", ids, 12), pa.array(times), *map(pa.array, values)]
    return pa.table(columns, schema=HUNDRED)
