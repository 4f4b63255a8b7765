"""Tables of the sink: Apache Hudi places their keys as we do, reads them, and writes into them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.hudi_peer import HudiPeer, write_options
from tests.support.referee import assert_referee_agrees
from tests.workers.sink.sinks import (
    IDS,
    TOPIC,
    Facts,
    append_table,
    batch,
    config_of,
    coordinator,
    ingest,
    keyed_table,
    rows_of,
    write,
)
from workers.files.record_key import composite_keys
from workers.index.bucket import bucket_of_composite_keys
from workers.lakehouse import open_table
from workers.sink.batch import Source, Tombstone
from workers.sink.tables import (
    APPEND_HASH,
    APPEND_KEY,
    OFFSET,
    PARTITION,
    append_bucket,
    append_key_prefix,
)
from workers.table.table import Table

pytestmark = pytest.mark.interop

TEXTS = ("", "a", "7", "x:y", "10:30", "Doe, J", "é漢😀", None, "a,b:c", "t-1.x_y")
DIRECT = {"hoodie.write.markers.type": "direct"}


def test_topic_and_partition_are_hashed_as_hudi_hashes_them(peer: HudiPeer) -> None:
    cases = [(topic, number) for topic in ("orders", "a.b-c_d", "T1") for number in range(40)]

    for buckets in (1, 8, 97, 256):
        keys = [
            append_key_prefix(Source(topic, number, "", "id", "c")) + str(number * 7)
            for topic, number in cases
        ]
        theirs = peer.buckets(keys, ",".join(APPEND_HASH), buckets)
        assert [append_bucket(topic, number, buckets) for topic, number in cases] == theirs


@pytest.mark.parametrize("hashed", ["a", "b", "a,b", "b,a", "a,b,c"])
def test_some_fields_of_a_key_are_hashed_as_hudi_hashes_them(peer: HudiPeer, hashed: str) -> None:
    rows = list(itertools.product(TEXTS[:6], TEXTS, ("1", "x,y:z")))
    texts = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    keys = composite_keys(("a", "b", "c"), texts)

    ours = bucket_of_composite_keys(
        keys, texts, buckets=101, fields=("a", "b", "c"), index_fields=hashed.split(",")
    )

    assert ours.tolist() == peer.buckets([str(one) for one in keys.to_pylist()], hashed, 101)


def test_an_append_only_table_is_the_same_everywhere(location: Path, peer: HudiPeer) -> None:
    table, config = append_table(location, partitions=3), config_of()
    facts = Facts({0: (0, 40), 1: (0, 1), 2: (0, 25)})
    ingest(coordinator(table, config), table, facts)
    facts.produce(1, 30)
    ingest(coordinator(table, config), table, facts)

    _assert_the_same_everywhere(table, peer)
    assert len(rows_of(table)) == 96

    open_table(location).compact(options=DIRECT)
    facts.produce(2, 5)
    ingest(coordinator(table, config), table, facts)
    _assert_the_same_everywhere(table, peer)
    assert len(rows_of(table)) == 101


def test_hudi_upserts_into_the_file_groups_of_the_sink(location: Path, peer: HudiPeer) -> None:
    table, config = append_table(location, partitions=2), config_of()
    facts = Facts({0: (0, 4), 1: (0, 4)})
    ingest(coordinator(table, config), table, facts)
    groups = {one.file_id for one in open_table(location).file_groups()}
    snapshot: pa.Table = open_table(location).read()
    chosen = snapshot.filter(
        pa.array([offset == 2 for offset in snapshot.column(OFFSET).to_pylist()])
    )
    changed = chosen.set_column(
        chosen.column_names.index("city"), "city", pa.array(["corrected"] * chosen.num_rows)
    )

    peer.write(
        location,
        changed,
        write_options(
            name="orders",
            record_key=APPEND_KEY,
            buckets=table.config.buckets,
            table_type="MERGE_ON_READ",
        )
        | {"hoodie.bucket.index.hash.field": ",".join(APPEND_HASH)},
    )

    assert {one.file_id for one in open_table(location).file_groups()} == groups
    _assert_the_same_everywhere(table, peer)
    cities = dict(zip(*_columns(table, PARTITION, OFFSET, "city"), strict=True))
    assert cities[0, 2] == cities[1, 2] == "corrected"
    assert cities[0, 1] == "0/1"
    assert coordinator(table, config).load_last_commit().offsets == {0: 4, 1: 4}


def test_a_keyed_table_with_tombstones_is_the_same_everywhere(
    location: Path, peer: HudiPeer
) -> None:
    table, config = keyed_table(location, IDS), config_of(mode="upsert")
    rows = [{"id": n % 20, "city": f"{TOPIC} {n}", "ts": n} for n in range(60)]
    write(table, config, batch(rows, schema=IDS))
    stones = [Tombstone(100 + n, str(n).encode()) for n in range(5)]
    again = [{"id": 3, "city": "again", "ts": 1}]
    write(
        table,
        config,
        batch(again, offsets=[120], schema=IDS, tombstones=stones),
        end=130,
    )

    _assert_the_same_everywhere(table, peer)
    assert len(rows_of(table)) == 16


def test_a_record_after_a_tombstone_begins_anew_with_us_and_meets_the_base_file_elsewhere(
    location: Path, peer: HudiPeer
) -> None:
    """What docs/sink.md says of tombstones in tables with an ordering, until compaction."""
    table, config = keyed_table(location, IDS, ordering=["ts"]), config_of(mode="upsert")
    write(table, config, batch([{"id": 2, "city": "high", "ts": 9}], schema=IDS))
    open_table(location).compact(options=DIRECT)

    low = batch(
        [{"id": 2, "city": "low", "ts": 1}],
        offsets=[112],
        schema=IDS,
        tombstones=[Tombstone(111, b"2")],
    )
    write(table, config, low, end=200)

    assert rows_of(table, "id", "city") == [(2, "low")]
    assert peer.read(location).column("city").to_pylist() == ["high"]
    open_table(location).compact(options=DIRECT)
    _assert_the_same_everywhere(table, peer)
    assert rows_of(table, "id", "city") == [(2, "low")]


def _columns(table: Table, *names: str) -> tuple[list[tuple[int, int]], list[str]]:
    rows = rows_of(table, *names)
    return [(row[0], row[1]) for row in rows], [row[2] for row in rows]


def _assert_the_same_everywhere(table: Table, peer: HudiPeer) -> None:
    location = Path(table.storage.location)
    ours: pa.Table = open_table(location).read()
    theirs = peer.read(location).select(ours.column_names)
    assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, theirs.to_pylist()))
    assert_referee_agrees(location, is_ours=False)
