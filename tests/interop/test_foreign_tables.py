"""Tables that Apache Hudi 1.2 wrote in ways that the sample tables do not show: Sluice reads of
them what Hudi reads, and shows their whole timeline.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.interop.foreign import KINDS, SCHEMA, ForeignTable
from tests.support.hudi_peer import HudiPeer, PeerFailed
from workers.errors import SnapshotExpired
from workers.lakehouse import LakehouseTable, open_table
from workers.timeline.instant import State

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


@pytest.fixture(params=sorted(KINDS))
def made(request: pytest.FixtureRequest, location: Path, peer: HudiPeer) -> ForeignTable:
    return KINDS[request.param].make(location, peer)


def counted(rows: pa.Table) -> Counter[str]:
    if not rows.num_columns:
        return Counter()
    return Counter(text(row) for row in rows.select(SCHEMA.names).to_pylist())


def text(row: dict[str, Any]) -> str:
    """Spark takes a column that is partitioned by its time for text, with the same values."""
    return repr([None if row[name] is None else str(row[name]) for name in SCHEMA.names])


@pytest.mark.sampled(every=3)
def test_every_read_is_what_hudi_reads(made: ForeignTable) -> None:
    table = open_table(made.location)
    judged = counted((made.twin or made).judged())
    assert judged

    assert counted(table.read()) == judged
    assert counted(table.read(since="earliest")) == judged
    newest = table.table.timeline().list_completed_writes()[-1].completed_at
    assert counted(table.read(as_of=newest)) == judged
    if made.twin is None:
        optimized = made.judged(is_read_optimized=True)
        assert counted(table.read(query="read_optimized")) == counted(optimized)
        assert_moments_agree(table, made)
    assert_changes_end_in(judged, table)
    assert_story_is_whole(table, made)


def assert_moments_agree(table: LakehouseTable, made: ForeignTable) -> None:
    """At one moment in the middle that is not cleaned away; Hudi goes by completion from 8 on."""
    writes = table.table.timeline().list_completed_writes()
    moment = writes[len(writes) // 2].completed_at or ""
    try:
        then = counted(table.read(as_of=moment))
    except SnapshotExpired:
        return
    try:
        judged = counted(made.judged(as_of=moment))
    except PeerFailed as error:
        # Hudi refuses by the clean's date, also where all files of the moment still stand.
        if "Cleaner cleaned up the timestamp" in str(error):
            return
        raise
    assert then == judged


def assert_changes_end_in(judged: Counter[str], table: LakehouseTable) -> None:
    """Played back from the start; a table whose first states are cleaned away says so."""
    images: Counter[str] = Counter()
    try:
        changes = table.read(query="cdc", since="earliest").to_pylist()
    except SnapshotExpired:
        assert any(one.action.value == "clean" for one in table.timeline(archived=True))
        return
    for change in changes:
        for sign, side in ((-1, change["before"]), (1, change["after"])):
            if side is not None:
                images[text(side)] += sign
    assert +images == judged
    assert not -images


def assert_story_is_whole(table: LakehouseTable, made: ForeignTable) -> None:
    """Every write is on the timeline or in its history, and pending plans are shown as such."""
    timeline = table.timeline(archived=True)
    written = [one for one in timeline if one.state is State.COMPLETED and one.action.writes_data]
    assert len(written) >= made.writes, timeline
    pending = [one.action.value for one in timeline if one.state is not State.COMPLETED]
    assert pending == list(made.pending), timeline
