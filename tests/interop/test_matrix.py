"""Every kind of table state that we write, pairwise: both other readers see our rows, Apache Hudi
upserts into the table and compacts our logs, and we read what it wrote.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from tests.interop.known_table import Cell, KnownTable
from tests.interop.states import NEED_LOGS, STATES
from tests.support.hudi_peer import HudiPeer

pytestmark = pytest.mark.interop

TYPES = ("MERGE_ON_READ", "COPY_ON_WRITE")
LOGS = ("parquet", "avro")
KEYS = ("simple", "composite")
PARTITIONINGS = ("none", "plain", "encoded", "two")


def _cells() -> list[Cell]:
    """Every state with every partitioning; the other dimensions spread over them."""
    cells = []
    for row, state in enumerate(STATES):
        for column, partitioning in enumerate(PARTITIONINGS):
            kind = TYPES[0] if state in NEED_LOGS else TYPES[(row + column) % 2]
            # A copy-on-write table has no logs, so one log format stands for both.
            log = LOGS[(column // 2 + row // 2) % 2] if kind == TYPES[0] else LOGS[0]
            key = KEYS[(column // 2 + row // 3) % 2]
            cells.append(Cell(kind, log, key, partitioning, state))
    return cells


CELLS = _cells()


def test_the_matrix_holds_every_pair() -> None:
    dimensions = (TYPES, LOGS, KEYS, PARTITIONINGS, tuple(STATES))
    values = [
        (cell.table_type, cell.log_format, cell.key, cell.partitioning, cell.state)
        for cell in CELLS
    ]
    for left, right in combinations(range(len(dimensions)), 2):
        held = {(value[left], value[right]) for value in values}
        for pair in ((a, b) for a in dimensions[left] for b in dimensions[right]):
            is_none = "COPY_ON_WRITE" in pair and (pair[1] == "avro" or pair[1] in NEED_LOGS)
            assert pair in held or is_none, pair


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_every_engine_reads_and_writes_it(cell: Cell, location: Path, peer: HudiPeer) -> None:
    known = KnownTable(location, cell)
    STATES[cell.state](known)
    known.assert_all_read_it(peer)

    known.let_hudi_upsert(peer, [2, 5, 60], "by hudi")
    known.assert_all_read_it(peer)
    if cell.table_type == "MERGE_ON_READ" and cell.state != "planned":
        known.let_hudi_compact(peer)
        known.assert_all_read_it(peer)
    known.upsert([5, 61], "by us again")
    known.assert_all_read_it(peer)
