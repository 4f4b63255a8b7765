"""A table that Apache Hudi made with its bucket index is adopted, and both engines write to it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tests.interop.foreign import SCHEMA, ForeignTable, options
from tests.support.hudi_peer import HudiPeer
from tests.support.referee import referee_table
from workers.concurrency.outcome import Committed
from workers.errors import UnsupportedTable
from workers.lakehouse import open_table

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

BUCKETS = 5
BUCKET_INDEX = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": str(BUCKETS),
}
DIRECT = {"hoodie.write.markers.type": "direct"}


def counted(rows: pa.Table) -> Counter[str]:
    return Counter(repr(list(row.values())) for row in rows.select(SCHEMA.names).to_pylist())


def expect(table: ForeignTable, rows: dict[str, dict[str, object]]) -> None:
    wanted = Counter(repr([row[name] for name in SCHEMA.names]) for row in rows.values())
    assert counted(open_table(table.location).read()) == wanted, "Sluice"
    assert counted(referee_table(table.location)) == wanted, "hudi-rs"
    assert counted(table.peer.read(table.location)) == wanted, "Apache Hudi"


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("key", ["id", "id,n"])
def test_both_engines_write_into_an_adopted_table(
    table_type: str, key: str, location: Path, peer: HudiPeer
) -> None:
    keygen = "SimpleKeyGenerator" if key == "id" else "ComplexKeyGenerator"
    given = options(table_type=table_type, keygen=keygen, key=key, more=BUCKET_INDEX)
    theirs = ForeignTable(location, peer, given)
    rows_by_key: dict[str, dict[str, object]] = {}

    def remember(rows: list[dict[str, object]]) -> pa.Table:
        rows_by_key.update({str(row["id"]): row for row in rows})
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    def by_hudi(numbers: range, note: str) -> None:
        peer.write(location, remember(theirs.rows(numbers, note)), given)

    by_hudi(range(60), "first")
    by_hudi(range(30, 70), "second")
    table = open_table(location)
    with pytest.raises(UnsupportedTable, match="adopt the table first"):
        table.write(remember([]))

    outcome = table.adopt()

    assert outcome.figures["buckets"] == BUCKETS
    expect(theirs, rows_by_key)
    for turn in range(2):
        ours = remember(theirs.rows(range(20 * turn, 80 + turn), f"ours {turn}"))
        assert isinstance(table.write(ours, options=DIRECT), Committed)
        expect(theirs, rows_by_key)
        by_hudi(range(10, 90 + turn), f"theirs {turn}")
        expect(theirs, rows_by_key)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("table_type", "index"),
    [
        ("COPY_ON_WRITE", "BLOOM"),
        ("MERGE_ON_READ", "SIMPLE"),
        ("COPY_ON_WRITE", "GLOBAL_SIMPLE"),
        ("MERGE_ON_READ", "GLOBAL_BLOOM"),
    ],
)
def test_both_engines_write_into_an_adopted_table_whose_keys_are_looked_up(
    table_type: str, index: str, location: Path, peer: HudiPeer
) -> None:
    more = {"hoodie.index.type": index}
    given = options(table_type=table_type, keygen="SimpleKeyGenerator", key="id", more=more)
    theirs = ForeignTable(location, peer, given)
    rows_by_key: dict[str, dict[str, object]] = {}

    def remember(rows: list[dict[str, object]]) -> pa.Table:
        rows_by_key.update({str(row["id"]): row for row in rows})
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    peer.write(location, remember(theirs.rows(range(60), "first")), given)
    peer.write(location, remember(theirs.rows(range(30, 70), "second")), given)
    table = open_table(location)

    table.adopt(more)

    for turn in range(2):
        ours = remember(theirs.rows(range(20 * turn, 80 + turn), f"ours {turn}"))
        assert isinstance(table.write(ours, options=DIRECT), Committed)
        expect(theirs, rows_by_key)
        again = remember(theirs.rows(range(10, 90 + turn), f"theirs {turn}"))
        peer.write(location, again, given)
        expect(theirs, rows_by_key)
