"""Tables of versions 6 and 8 that Sluice upgrades: Apache Hudi 1.2 and hudi-rs read them as before,
they are what Hudi's own upgrade makes of them but for what is explained here, and both engines
write into them afterwards.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from bench.support.golden import ARCHIVES, unpacked
from tests.interop.foreign import KINDS, SCHEMA, ForeignTable, options
from tests.interop.test_adopted_tables import BUCKET_INDEX, BUCKETS, DIRECT, expect
from tests.support.hudi_peer import HudiPeer
from tests.support.referee import referee_table
from workers.concurrency.outcome import Committed
from workers.files.meta_columns import META_COLUMNS
from workers.files.properties import load_properties
from workers.lakehouse import open_table
from workers.options.readability import HISTORY_KEY
from workers.storage.local import LocalStorage

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

OF_HUDI = [
    "v6-mor-avro-log",
    "v6-mor-parquet-log",
    "v6-mor-out-of-order",
    "v6-mor-commit-time",
    "v6-mor-archived",
    "v6-cow-archived-overwrites",
    "v6-mor-compacted",
    "v6-mor-crashed",
    "v6-cow-overwritten",
    "v6-cow-clustered",
    "v8-mor-avro-log",
    "v8-mor-commit-time",
    "v8-cow-archived",
]
GOLDEN = [one for one in ARCHIVES if "-v6_" in one.name or "cow-v8_" in one.name]
EXPLAINED = {
    HISTORY_KEY,  # Ours: from when on the history is whole.
    # Hudi turns logs merged by commit time into event time when there is an ordering field.
    "hoodie.record.merge.mode",
    # What stood for the merge until version 8; Hudi leaves it behind, or fills in its default.
    "hoodie.compaction.record.merger.strategy",
    "hoodie.table.legacy.payload.class",
    # Its default, which new tables write down.
    "hoodie.timeline.history.path",
    # The type that follows says the same.
    "hoodie.table.keygenerator.class",
}


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("kind", OF_HUDI)
def test_table_of_hudi_reads_as_before(kind: str, location: Path, peer: HudiPeer) -> None:
    made = KINDS[kind].make(location, peer)
    before, optimized = counted(made.judged()), counted(made.judged(is_read_optimized=True))
    writes = open_table(location).table.timeline().list_completed_writes()
    moment = writes[len(writes) // 2]
    then = counted(open_table(location).read(as_of=moment.completed_at))

    upgraded = upgrade(location)

    assert before
    assert counted(open_table(location).read()) == before
    assert counted(made.judged()) == before
    assert counted(referee_table(location)) == before
    assert counted(made.judged(is_read_optimized=True)) == optimized
    if "archived" not in kind:
        at = upgraded[moment.requested_at]
        assert counted(open_table(location).read(as_of=at)) == then
        assert counted(made.judged(as_of=at)) == then


def upgrade(location: Path) -> dict[str, str]:
    """Completion times by request."""
    table = open_table(location)
    table.upgrade()
    return {one.requested_at: one.completed_at or "" for one in table.timeline()}


def counted(rows: pa.Table) -> Counter[str]:
    kept = [name for name in sorted(rows.column_names) if name not in META_COLUMNS]
    return Counter(repr(list(row.values())) for row in rows.select(kept).to_pylist())


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("archive", GOLDEN, ids=lambda path: path.stem)
def test_golden_table_is_what_hudis_own_upgrade_makes(
    archive: Path, tmp_path: Path, peer: HudiPeer
) -> None:
    ours = unpacked(archive, tmp_path)
    before = counted(peer.read(ours))
    theirs = tmp_path / "theirs"
    shutil.copytree(ours, theirs)

    upgrade(ours)
    upgrade_by_hudi(theirs, peer)

    assert counted(peer.read(ours)) == counted(peer.read(theirs)) == before
    assert_properties_agree(ours, theirs)


@pytest.mark.parametrize("kind", ["v6-mor-archived", "v8-mor-avro-log"])
def test_table_of_hudi_is_what_its_own_upgrade_makes(
    kind: str, location: Path, peer: HudiPeer
) -> None:
    KINDS[kind].make(location, peer)
    theirs = location.with_name("theirs")
    shutil.copytree(location, theirs)

    upgrade(location)
    upgrade_by_hudi(theirs, peer)

    assert counted(peer.read(location)) == counted(peer.read(theirs))
    assert_properties_agree(location, theirs)


def upgrade_by_hudi(location: Path, peer: HudiPeer) -> None:
    name = f"upgraded_{location.parent.name.replace('-', '_')}"
    peer.sql(
        f"create table {name} using hudi location '{location}'",
        f"call upgrade_table(table => '{name}', to_version => 'NINE')",
        f"drop table {name}",
    )


def assert_properties_agree(ours: Path, theirs: Path) -> None:
    mine, judged = (load_properties(LocalStorage(one)) for one in (ours, theirs))
    differing = {key for key in mine.keys() | judged.keys() if mine.get(key) != judged.get(key)}
    assert differing <= EXPLAINED


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("version", [6, 8])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_both_engines_write_into_an_upgraded_and_adopted_table(
    table_type: str, version: int, location: Path, peer: HudiPeer
) -> None:
    given = options(table_type=table_type, version=version, more=BUCKET_INDEX)
    theirs = ForeignTable(location, peer, given)
    rows_by_key: dict[str, dict[str, object]] = {}

    def remember(rows: list[dict[str, object]]) -> pa.Table:
        rows_by_key.update({str(row["id"]): row for row in rows})
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    for numbers, note in ((range(60), "first"), (range(30, 70), "second")):
        peer.write(location, remember(theirs.rows(numbers, note)), given)
    table = open_table(location)
    table.upgrade()

    outcome = table.adopt()

    assert outcome.figures["buckets"] == BUCKETS
    expect(theirs, rows_by_key)
    now = {**given, "hoodie.write.table.version": "9"}
    for turn in range(2):
        ours = remember(theirs.rows(range(20 * turn, 80 + turn), f"ours {turn}"))
        assert isinstance(table.write(ours, options=DIRECT), Committed)
        expect(theirs, rows_by_key)
        batch = remember(theirs.rows(range(10, 90 + turn), f"theirs {turn}"))
        peer.write(location, batch, now)
        expect(theirs, rows_by_key)
    if table_type == "MERGE_ON_READ":
        table.compact()
        expect(theirs, rows_by_key)
