"""How Apache Hudi spells and places record keys of which ours say that they follow it, or that
there is nothing to follow.
"""

from __future__ import annotations

import datetime as dt
import random
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.interop.foreign import options
from tests.support.hudi_peer import HudiPeer, PeerFailed, require_hudi, write_options
from tests.support.scenario_table import schema_of
from workers.errors import InvalidInput
from workers.files.meta_columns import RECORD_KEY
from workers.files.record_key import composite_keys
from workers.index.bucket import bucket_of_composite_keys, bucket_of_keys, endless_keys
from workers.lakehouse import create_table, open_table

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

SEED = 20_261_123
PLAIN_KEYS = 3_000
COMPOSITE_KEYS = 600
KEY_FIELDS = ("a", "b", "c")
ENDLESS = "http://x:80/a,b"
SPINNING_S = 3.0
"""Of processor time; other keys take less than a thousandth."""
MOMENT = dt.datetime.fromisoformat("2026-11-23 05:00:00.123456")
EARLIER = dt.datetime.fromisoformat("1969-12-31 23:59:59.999999")
LATER = dt.datetime.fromisoformat("2027-01-01 00:00:00")
MICROSECONDS = "1795410000123456"
CUT_TEXT = "2026-11-23 05:00:00.123"
ROW_WRITER = {"hoodie.datasource.write.operation": "bulk_insert"}
UPSERT = {"hoodie.datasource.write.operation": "upsert"}


def bucket_of(key: str) -> int | None:
    """None where we refuse it."""
    try:
        return int(bucket_of_keys(pa.array([key]), buckets=1009, key_field="id")[0])
    except InvalidInput:
        return None


def test_plain_keys_with_both_separators_go_where_hudi_puts_them(peer: HudiPeer) -> None:
    chance = random.Random(SEED)
    texts = ("a", "id", "1", ":", ":", ",", ",", "__null__", "__empty__", "é")
    keys = {
        "".join(chance.choice(texts) for _ in range(chance.randint(2, 9)))
        for _ in range(PLAIN_KEYS)
    }
    ours = {key: bucket for key in sorted(keys) if (bucket := bucket_of(key)) is not None}
    parsed = [key for key in ours if "," in key and ":" in key]
    assert len(parsed) > PLAIN_KEYS / 5, f"seed={SEED}"

    theirs = peer.buckets(list(ours), "id", 1009)

    assert dict(zip(ours, theirs, strict=True)) == ours


@pytest.mark.parametrize("hashed", ["a", "b", "c", "a,b", "b,c", "a,b,c"])
def test_keys_of_several_fields_go_where_hudi_puts_them_or_are_refused(
    peer: HudiPeer, hashed: str
) -> None:
    chance = random.Random(f"{SEED} {hashed}")
    texts = ("a", "b", "1", ":", ":", ",", "é")
    rows = [
        ["".join(chance.choice(texts) for _ in range(chance.randint(1, 5))) for _ in KEY_FIELDS]
        for _ in range(COMPOSITE_KEYS)
    ]
    columns: list[Any] = [pa.array(column) for column in zip(*rows, strict=True)]
    keys = composite_keys(KEY_FIELDS, columns)
    field_names = {"fields": KEY_FIELDS, "index_fields": hashed.split(",")}
    endless = set(endless_keys(keys, columns, **field_names).tolist())
    ours = bucket_of_composite_keys(keys, columns, buckets=1009, **field_names).tolist()
    placed = [at for at in range(len(keys)) if at not in endless]
    assert endless, f"seed={SEED}"
    assert len(placed) > COMPOSITE_KEYS / 3, f"seed={SEED}"

    theirs = peer.buckets([keys[at].as_py() for at in placed], hashed, 1009)

    assert dict(zip(placed, theirs, strict=True)) == {at: ours[at] for at in placed}


@pytest.mark.parametrize(
    ("key", "values", "hashed"),
    [
        (ENDLESS, None, "id"),
        ("a:1,b:10:30", ("1", "10:30"), "a"),
        ("a:1,b:x,y:z:w", ("1", "x,y:z:w"), "a,b"),
    ],
    ids=["plain", "the last field is not hashed", "a value looks like fields"],
)
def test_hudi_never_ends_on_a_key_that_we_refuse(
    tmp_path_factory: pytest.TempPathFactory,
    key: str,
    values: tuple[str, ...] | None,
    hashed: str,
) -> None:
    environment = require_hudi()
    if values is None:
        assert bucket_of(key) is None
    else:
        texts: list[Any] = [pa.array([one]) for one in values]
        field_names = {"fields": ("a", "b"), "index_fields": hashed.split(",")}
        assert composite_keys(("a", "b"), texts).to_pylist() == [key]
        assert endless_keys(pa.array([key]), texts, **field_names).tolist() == [0]
    peer = HudiPeer(environment.python, environment.jar, tmp_path_factory.mktemp("endless"))
    try:
        assert peer.buckets(["x,y:z"], "id", 1009) == [bucket_of("x,y:z")]
        before_s = _processor_s(peer.pid)
        asking = threading.Thread(target=_ask, args=(peer, key, hashed), daemon=True)
        asking.start()

        while asking.is_alive() and _processor_s(peer.pid) < before_s + SPINNING_S:
            asking.join(0.1)

        assert asking.is_alive(), "Hudi parses it: it need not be refused any more"
    finally:
        peer.kill()


def _ask(peer: HudiPeer, key: str, hashed: str) -> None:
    with suppress(PeerFailed):  # It is killed while it is at it.
        peer.buckets([key], hashed, 1009)


def _processor_s(pid: int) -> float:
    """Of Hudi's JVM, a child of this process."""
    times = [one.cpu_times() for one in psutil.Process(pid).children(recursive=True)]
    return sum(one.user + one.system for one in times)


@pytest.mark.parametrize(
    ("zone", "how", "text"),
    [
        (None, UPSERT, MICROSECONDS),
        (None, ROW_WRITER, MICROSECONDS),
        ("UTC", UPSERT, MICROSECONDS),
        ("UTC", ROW_WRITER, CUT_TEXT),
    ],
)
def test_hudi_spells_a_time_in_one_way_without_a_zone_and_in_two_with_one(
    location: Path, peer: HudiPeer, zone: str | None, how: dict[str, str], text: str
) -> None:
    """With a zone two times within a millisecond are one key on one path, and two on the other."""
    rows = pa.table(
        {"id": pa.array([MOMENT], pa.timestamp("us", zone)), "ts": [1], "place": ["Oslo"]}
    )

    peer.write(location, rows, options(table_type="COPY_ON_WRITE", more=how))

    [file] = location.rglob("*.parquet")
    assert pq.read_table(file, columns=[RECORD_KEY]).column(0).to_pylist() == [text]


def test_hudi_spells_a_time_without_a_zone_alike_among_several_key_fields(
    location: Path, peer: HudiPeer
) -> None:
    rows = pa.table({"id": pa.array([MOMENT], pa.timestamp("us")), "ts": [1], "place": ["Oslo"]})
    for how in (UPSERT, ROW_WRITER):
        given = options(
            table_type="COPY_ON_WRITE", keygen="ComplexKeyGenerator", key="id,ts", more=how
        )
        peer.write(location, rows, given)

    keys = {
        key
        for file in location.rglob("*.parquet")
        for key in pq.read_table(file, columns=[RECORD_KEY]).column(0).to_pylist()
    }
    assert keys == {f"id:{MICROSECONDS},ts:1"}


@pytest.mark.parametrize("zone", [None, "UTC"], ids=["without a zone", "UTC"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_hudi_finds_our_rows_by_times(
    location: Path, peer: HudiPeer, table_type: str, zone: str | None
) -> None:
    """hudi-rs reads no table with a time without a zone, key or not."""
    schema = schema_of(at=pa.timestamp("us", zone), ts=pa.int64(), city=pa.string())
    buckets = {"hoodie.bucket.index.num.buckets": "4"}
    table = create_table(
        location,
        name="times",
        schema=schema,
        record_key=["at"],
        ordering=["ts"],
        table_type=table_type,
        options=buckets,
    )
    table.write(pa.table([[MOMENT, EARLIER], [1, 1], ["Oslo", "Rome"]], schema=schema))
    given = write_options(
        name="times", record_key=["at"], ordering=["ts"], buckets=4, table_type=table_type
    )

    theirs = pa.table([[MOMENT, LATER], [2, 1], ["Lima", "Bergen"]], schema=schema)
    peer.write(location, theirs, given)

    def seen(rows: pa.Table) -> list[tuple[Any, Any]]:
        moments = rows.column("at").cast(pa.int64()).to_pylist()
        return sorted(zip(moments, rows.column("city").to_pylist(), strict=True))

    moments = pa.array([EARLIER, MOMENT, LATER], pa.timestamp("us")).cast(pa.int64())
    expected = list(zip(moments.to_pylist(), ["Rome", "Lima", "Bergen"], strict=True))
    assert seen(open_table(location).read()) == seen(peer.read(location)) == expected
