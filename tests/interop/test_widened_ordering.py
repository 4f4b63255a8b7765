"""An ordering column that became wider, read and written on by Apache Hudi."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.foreign_commits import foreign_commit
from tests.support.hudi_peer import HudiPeer, PeerFailed, write_options
from tests.support.scenario_table import Row, ScenarioTable, schema_of
from tests.support.widened_ordering import (
    AVRO_BLOCKS,
    DECIMALS_LEFT,
    FAR,
    FIRST,
    NARROW,
    NARROW_DECIMALS,
    NARROW_ROWS,
    NEWER,
    STANDING,
    WIDE,
    WIDE_DECIMAL_ROWS,
    WIDE_DECIMALS,
    WIDE_ROWS,
    decimal_row,
    fill,
    upsert,
)
from workers.lakehouse import open_table
from workers.schema.table_schema import TableSchema
from workers.timeline.instant import Action
from workers.timeline.metadata import SCHEMA_KEY

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

LIVE_NARROW = [one for one in NARROW_ROWS if not one["_hoodie_is_deleted"]]


def read_by(peer: HudiPeer, table: ScenarioTable) -> list[Row]:
    read_rows = peer.read(table.location).select(["id", "ts", "city"]).to_pylist()
    return sorted(read_rows, key=lambda row: row["id"])


@pytest.mark.parametrize(
    ("options", "kind"),
    [({}, (pa.int32(), pa.int64())), (AVRO_BLOCKS, (pa.float32(), pa.float64()))],
    ids=["int to long", "float to double"],
)
def test_hudi_reads_what_we_read_of_both_types_and_writes_on(
    location: Path,
    peer: HudiPeer,
    options: Mapping[str, str],
    kind: tuple[pa.DataType, pa.DataType],
) -> None:
    narrow, wide = (schema_of(id=pa.int64(), ts=one, city=pa.string()) for one in kind)
    table = ScenarioTable(location, table_type="MERGE_ON_READ", schema=narrow, ordering=["ts"])
    fill(table)
    late = upsert(table, LIVE_NARROW, narrow, mode="non-blocking", options=options)
    upsert(table, WIDE_ROWS, wide, mode="non-blocking", options=options).wins()
    late.wins()

    assert read_by(peer, table) == table.rows()
    table.assert_referee_agrees()

    given = write_options(
        name="scenario",
        record_key=["id"],
        ordering=["ts"],
        buckets=table.table.config.buckets,
        table_type="MERGE_ON_READ",
    )
    theirs = [{"id": 4, "ts": FAR - 1, "city": "older"}, {"id": 7, "ts": FAR, "city": "hudi"}]
    peer.write(location, table.batch(theirs, wide), given)
    rows = {one["id"]: one["city"] for one in open_table(location).read().to_pylist()}
    assert (rows[4], rows[7]) == ("far", "hudi")


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_hudi_reads_decimals_that_have_more_whole_digits_since(
    location: Path, peer: HudiPeer, table_type: str
) -> None:
    """Hudi 1.2 upserts into no copy-on-write table that is ordered by decimals, widened or not."""
    table = ScenarioTable(location, table_type=table_type, schema=NARROW_DECIMALS, ordering=["ts"])
    rows = [decimal_row(key, FIRST, "first") for key in range(1, 9)]
    upsert(table, rows, NARROW_DECIMALS).wins()
    upsert(table, [decimal_row(1, NEWER, "narrow")], NARROW_DECIMALS).wins()
    upsert(table, WIDE_DECIMAL_ROWS, WIDE_DECIMALS).wins()

    assert {one["id"]: one["city"] for one in table.rows()} == DECIMALS_LEFT
    assert read_by(peer, table) == table.rows()
    table.assert_referee_agrees()
    if table_type == "COPY_ON_WRITE":
        return
    given = write_options(
        name="scenario",
        record_key=["id"],
        ordering=["ts"],
        buckets=table.table.config.buckets,
        table_type="MERGE_ON_READ",
    )
    theirs = [decimal_row(4, FAR - 1, "older"), decimal_row(8, FAR, "hudi")]
    peer.write(location, table.batch(theirs, WIDE_DECIMALS), given)
    city_of = {one["id"]: one["city"] for one in open_table(location).read().to_pylist()}
    assert (city_of[4], city_of[8]) == ("far", "hudi")


def test_hudi_fails_on_deletes_of_the_older_type_which_we_therefore_leave_in_no_log(
    location: Path, peer: HudiPeer
) -> None:
    """Another engine widened it; the day that Hudi reads this, nothing need be refused any more."""
    table = ScenarioTable(location, table_type="MERGE_ON_READ", schema=NARROW, ordering=["ts"])
    fill(table)
    upsert(table, NARROW_ROWS, NARROW).wins()
    schema = TableSchema.from_arrow(WIDE, table_name="scenario")
    extra_metadata = {SCHEMA_KEY: schema.avro_json}
    foreign_commit(table.table, extra_metadata, "UPSERT", Action.DELTACOMMIT)
    upsert(table, WIDE_ROWS, WIDE).wins()

    assert table.rows() == STANDING
    with pytest.raises(PeerFailed, match=r"Integer cannot be cast to class java\.lang\.Long"):
        read_by(peer, table)

    open_table(location).compact()
    assert read_by(peer, table) == table.rows()
