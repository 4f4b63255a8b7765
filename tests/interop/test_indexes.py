"""Tables whose keys are looked up, written by Apache Hudi with the same index and by us in turns:
three readers see the same rows, and no key twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.hudi_peer import HudiPeer, write_options
from tests.support.invariants import assert_keys_are_unique
from tests.support.referee import referee_table
from workers.concurrency.outcome import Committed
from workers.files.meta_columns import PARTITION_PATH
from workers.lakehouse import create_table, open_table
from workers.options.index_kind import IndexKind
from workers.read.snapshot import read_snapshot

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "place": pa.string(),
    "ts": pa.int64(),
    "number": pa.int64(),
}
SCHEMA = pa.schema(_TYPES)
KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")
INDEXES = [one.value for one in IndexKind if one.looks_up]
GLOBALS = [one.value for one in IndexKind if one.is_global]
DIRECT = {"hoodie.write.markers.type": "direct"}
Row = tuple[str, str, int, int]


@dataclass
class Shared:
    """A table of ours that Hudi writes into as well."""

    location: Path
    peer: HudiPeer
    kind: str
    index: str
    moves: str | None = None
    more: dict[str, str] = field(default_factory=dict)

    def create(self) -> None:
        options = {"hoodie.index.type": self.index}
        if self.moves is not None:
            options[IndexKind(self.index).moves_key] = self.moves
        create_table(
            self.location,
            name="shared",
            schema=SCHEMA,
            record_key=["id"],
            partition_by=["place"],
            ordering=["ts"],
            table_type=self.kind,
            options=options,
        )

    def ours(self, rows: Iterable[Row], operation: str = "upsert") -> None:
        table = open_table(self.location)
        outcome = table.write(batch(rows), operation=operation, options=DIRECT | self.more)
        assert isinstance(outcome, Committed)

    def hudis(self, rows: Iterable[Row], operation: str = "upsert") -> None:
        given = write_options(
            name="shared",
            record_key=["id"],
            partition_by=["place"],
            ordering=["ts"],
            buckets=1,
            table_type=self.kind,
            operation=operation,
        )
        for key in ("hoodie.bucket.index.num.buckets", "hoodie.bucket.index.hash.field"):
            del given[key]
        given["hoodie.index.type"] = self.index
        if self.moves is not None:
            given[IndexKind(self.index).moves_key] = self.moves
        self.peer.write(self.location, batch(rows), given | self.more)

    def judged(self) -> tuple[Counter[tuple[Any, ...]], dict[str, str]]:
        """As Apache Hudi sees the rows, and in which partition each lies."""
        mine = read_snapshot(open_table(self.location).table, with_meta_columns=True)
        places = {str(row["id"]): str(row[PARTITION_PATH]) for row in mine.to_pylist()}
        return Counter(listed(self.peer.read(self.location))), places

    def rows(self) -> list[tuple[Any, ...]]:
        """As all three readers see them, with the partition that each lies in."""
        mine = read_snapshot(open_table(self.location).table, with_meta_columns=True)
        assert_keys_are_unique(mine)
        rows = listed(mine, PARTITION_PATH)
        assert Counter(listed(referee_table(self.location), PARTITION_PATH)) == Counter(rows)
        theirs = Counter(listed(self.peer.read(self.location)))
        assert theirs == Counter(one[:-1] for one in rows)
        return sorted(rows)


def batch(rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA
    )


def listed(rows: pa.Table, *more: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in (*SCHEMA.names, *more)) for row in rows.to_pylist()]


def many(numbers: Iterable[int], ts: int) -> list[Row]:
    return [(f"k{n:03}", ("oslo", "rome")[n % 2], ts, n * 100 + ts) for n in numbers]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", INDEXES)
def test_both_engines_write_in_turns(location: Path, peer: HudiPeer, kind: str, index: str) -> None:
    small = {
        "hoodie.parquet.max.file.size": "460000",
        "hoodie.parquet.small.file.limit": "450000",
        "hoodie.copyonwrite.record.size.estimate": "1000",
    }
    table = Shared(location, peer, kind, index, more=small)
    table.create()
    row_of: dict[str, Row] = {}

    def both(rows: list[Row], *gone: str) -> None:
        row_of.update({row[0]: row for row in rows})
        for key in gone:
            row_of.pop(key, None)
        wanted = Counter((*row, row[1]) for row in row_of.values())
        assert Counter(table.rows()) == wanted

    table.ours(first := many(range(60), 1))
    both(first)
    table.hudis(second := many(range(40, 90), 2))
    both(second)
    table.ours(third := many([*range(0, 90, 7), *range(90, 120)], 3))
    both(third)
    table.hudis(doomed := many([3, 45, 91], 4), "delete")
    both([], *(row[0] for row in doomed))
    table.ours(doomed := many([4, 46, 92, 3], 5), "delete")
    both([], *(row[0] for row in doomed))
    table.hudis(fourth := many([3, 4, 45, 46, *range(115, 140)], 6))
    both(fourth)
    table.ours(fifth := many([3, 4, *range(130, 150)], 7))
    both(fifth)


STANDING: list[Row] = [(f"k{n}", "oslo", 5, n) for n in range(8)]
MOVING: list[Row] = [
    ("k0", "rome", 6, 10),  # newer: it moves
    ("k1", "rome", 4, 11),  # older: it loses
    ("k2", "rome", 5, 12),  # as old: the later one wins
    ("k3", "oslo", 6, 13),  # stays where it is
    ("k4", "lima", 7, 14),  # twice in the batch: the newer one says where
    ("k4", "rome", 8, 15),
    ("k9", "rome", 1, 19),  # unknown
]
AGAIN: list[Row] = [("k0", "oslo", 9, 20), ("k2", "oslo", 1, 22), ("k9", "lima", 2, 29)]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", GLOBALS)
@pytest.mark.parametrize("moves", ["true", "false"])
def test_rows_move_between_partitions_as_hudi_moves_them(
    tmp_path: Path, peer: HudiPeer, kind: str, index: str, moves: str
) -> None:
    ours = Shared(tmp_path / "ours", peer, kind, index, moves)
    theirs = Shared(tmp_path / "theirs", peer, kind, index, moves)
    for table in (ours, theirs):
        table.create()

    for rows in (STANDING, MOVING, AGAIN):
        ours.ours(rows)
        theirs.hudis(rows)
        assert ours.judged() == theirs.judged()
        ours.rows()
    gone: list[Row] = [("k3", "nowhere", 10, 0), ("k0", "lima", 10, 0)]
    ours.ours(gone, "delete")
    theirs.hudis(gone, "delete")
    assert ours.judged() == theirs.judged()
    ours.rows()
