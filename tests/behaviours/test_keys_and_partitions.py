"""Keys of several columns and of every type; partitions of several columns and all spellings."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.support.fixtures import MarkerServerAddress
from tests.support.invariants import assert_table_is_sound
from tests.support.referee import assert_referee_agrees
from tests.support.scenario_table import schema_of
from workers import run_sql
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.read.snapshot import read_snapshot

SCHEMA = schema_of(
    station=pa.string(),
    day=pa.date32(),
    level=pa.decimal128(12, 8),
    wet=pa.bool_(),
    number=pa.int32(),
    ts=pa.int64(),
    value=pa.int64(),
)
TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
TWO = schema_of(a=pa.string(), b=pa.string(), n=pa.int64())
HASHED = "hoodie.bucket.index.hash.field"
DIRECT = {"hoodie.write.markers.type": "direct"}
Row = dict[str, Any]


def row(**given: Any) -> Row:
    defaults: Row = {
        "station": "a",
        "day": date(2024, 1, 2),
        "level": Decimal("1.5"),
        "wet": True,
        "number": 7,
        "ts": 1,
        "value": 1,
    }
    return defaults | given


def batch(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def made(where: Path, table_type: str, record_key: list[str], **definition: Any) -> LakehouseTable:
    return create_table(
        where / "table",
        name="keys",
        schema=SCHEMA,
        record_key=record_key,
        ordering=["ts"],
        table_type=table_type,
        **definition,
    )


def write(table: LakehouseTable, *rows: Row, operation: str = "upsert", **options: str) -> None:
    outcome = table.write(batch(*rows), operation=operation, options=DIRECT | options)
    assert isinstance(outcome, Committed), outcome


def meta(table: LakehouseTable, column: str) -> list[str]:
    rows = read_snapshot(table.table, with_meta_columns=True)
    return sorted(str(one) for one in rows.column(column).to_pylist())


def judged(table: LakehouseTable) -> None:
    assert_table_is_sound(table.location)
    assert_referee_agrees(table.location)


@pytest.mark.parametrize("table_type", TYPES)
def test_composite_keys_are_spelled_as_hudi_spells_them(tmp_path: Path, table_type: str) -> None:
    """As Apache Hudi 1.2 wrote them for the same values."""
    key = ["station", "day", "level", "wet", "number"]
    table = made(tmp_path, table_type, key)

    write(
        table,
        row(station=None, level=Decimal(-3), number=0),
        row(station="", day=date(999, 1, 2), level=Decimal("123.5"), wet=False, number=-7),
        row(station="a,x", level=Decimal("0.00000012")),
    )

    assert meta(table, RECORD_KEY) == [
        "station:__empty__,day:0999-01-02,level:123.50000000,wet:false,number:-7",
        "station:__null__,day:2024-01-02,level:-3.00000000,wet:true,number:0",
        "station:a,x,day:2024-01-02,level:1.2E-7,wet:true,number:7",
    ]
    judged(table)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("day", date(2024, 1, 2), "2024-01-02"),
        ("level", Decimal("123.5"), "123.50000000"),
        ("wet", False, "false"),
        ("number", -7, "-7"),
    ],
)
def test_single_keys_of_other_types(tmp_path: Path, field: str, value: Any, text: str) -> None:
    table = made(tmp_path, "COPY_ON_WRITE", [field])

    write(table, row(**{field: value}), row(**{field: value, "value": 2}))

    assert meta(table, RECORD_KEY) == [text]
    judged(table)


@pytest.mark.parametrize("table_type", TYPES)
def test_composite_keys_are_updated_and_deleted(tmp_path: Path, table_type: str) -> None:
    table = made(tmp_path, table_type, ["station", "number"], partition_by=["station"])
    rows = [row(station=f"s{n % 3}", number=n) for n in range(40)]
    write(table, *rows)

    write(table, *(one | {"ts": 2, "value": 9} for one in rows[:20]))
    write(table, *rows[30:], operation="delete")

    snapshot = table.read()
    assert sorted(snapshot.column("number").to_pylist()) == list(range(30))
    assert pc.sum(snapshot.column("value")).as_py() == 20 * 9 + 10
    judged(table)


def test_one_key_and_several_partitions_name_the_key_field(tmp_path: Path) -> None:
    """Hudi's COMPLEX key generator does so for a single field too."""
    table = made(tmp_path, "COPY_ON_WRITE", ["number"], partition_by=["station", "day"])

    write(table, row(number=7), row(number=-7, station=None, day=None))

    assert meta(table, RECORD_KEY) == ["number:-7", "number:7"]
    default = "__HIVE_DEFAULT_PARTITION__"
    assert meta(table, PARTITION_PATH) == [f"{default}/{default}", "a/2024-01-02"]
    judged(table)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("hive", ["true", "false"])
@pytest.mark.parametrize("markers", ["direct", "timeline_server_based"])
@pytest.mark.parametrize("table_type", TYPES)
def test_encoded_partitions_make_the_round_trip(
    tables_root: Path,
    tmp_path_factory: pytest.TempPathFactory,
    marker_server: MarkerServerAddress,
    monkeypatch: pytest.MonkeyPatch,
    table_type: str,
    markers: str,
    hive: str,
) -> None:
    monkeypatch.setenv("SLUICE_MARKER_SECRET", marker_server.secret)
    where = tables_root / f"encoded-{table_type}-{markers}-{hive}"
    options = {
        "hoodie.datasource.write.partitionpath.urlencode": "true",
        "hoodie.datasource.write.hive_style_partitioning": hive,
    }
    table = made(where, table_type, ["number"], partition_by=["station"], options=options)
    mine = {"hoodie.write.markers.type": markers, "sluice.marker.url": marker_server.url}
    stations = ["P/1 %x=y", "it's *", 'a"b\\c', "{[^]}#?:", "plain", "a\tb"]
    rows = [row(station=one, number=n) for n, one in enumerate(stations)]

    write(table, *rows, **mine)
    write(table, *(one | {"ts": 2, "value": 5} for one in rows), **mine)
    write(table, rows[0], operation="delete", **mine)

    snapshot = table.read()
    assert sorted(snapshot.column("station").to_pylist()) == sorted(stations[1:])
    assert set(snapshot.column("value").to_pylist()) == {5}
    first = "station=it%27s %2A" if hive == "true" else "it%27s %2A"
    assert first in meta(table, PARTITION_PATH)
    judged(table)


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([row(), row(station=None, number=None)], r"null.*rows=1 first_rows=\[1\]"),
        ([row(), row(), row(station="", number=None)], r"null.*rows=1 first_rows=\[2\]"),
        ([row(station="__null__")], "spelled like a missing value"),
        ([row(station="__empty__")], "spelled like a missing value"),
    ],
)
def test_composite_key_without_any_value_is_refused(
    tmp_path: Path, rows: list[Row], named: str
) -> None:
    table = made(tmp_path, "COPY_ON_WRITE", ["station", "number"])

    with pytest.raises(InvalidInput, match=named):
        write(table, *rows)

    assert len([one for one in table.timeline() if one.action.writes_data]) == 1


def test_encoded_partition_value_does_not_hide_a_directory(tmp_path: Path) -> None:
    options = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
    table = made(tmp_path, "COPY_ON_WRITE", ["number"], partition_by=["station"], options=options)

    with pytest.raises(InvalidInput, match="starts with a dot"):
        write(table, row(station="../up"))


def test_timestamp_is_no_partition(tmp_path: Path) -> None:
    schema = schema_of(id=pa.int64(), at=pa.timestamp("us", "UTC"))
    table = create_table(
        tmp_path / "t", name="t", schema=schema, record_key=["id"], partition_by=["at"]
    )

    with pytest.raises(InvalidInput, match="partition value must be"):
        table.write(pa.table({"id": [1], "at": [0]}).cast(schema), options=DIRECT)


def test_portable_table_refuses_a_timestamp_without_zone(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE", ["number"], options={"sluice.portable": "true"})
    zoneless = pa.array([0], pa.timestamp("us"))

    with pytest.raises(InvalidInput, match="seen_at"):
        table.write(batch(row()).append_column("seen_at", zoneless), options=DIRECT)


@pytest.mark.parametrize(
    ("value", "encodes", "named"),
    [
        ("", "false", "Apache Hudi shows an empty partition value as null.*station"),
        ("", "true", "Apache Hudi shows an empty partition value as null.*station"),
        ("x=y", "false", "only what follows '='.*urlencode=true.*station.*x=y"),
        ("x=y", "true", ""),
        (None, "false", ""),
    ],
)
def test_portable_table_refuses_partition_values_that_another_reader_shows_otherwise(
    tmp_path: Path, value: str | None, encodes: str, named: str
) -> None:
    encode = "hoodie.datasource.write.partitionpath.urlencode"
    for portable in ("true", "false"):
        options = {encode: encodes, "sluice.portable": portable}
        where = tmp_path / portable
        table = made(where, "COPY_ON_WRITE", ["number"], partition_by=["station"], options=options)
        if named and portable == "true":
            with pytest.raises(InvalidInput, match=named):
                write(table, row(station=value))
            assert table.read().num_rows == 0
        else:
            write(table, row(station=value))
            assert table.read().column("station").to_pylist() == [value]


@pytest.mark.parametrize("table_type", TYPES)
def test_times_without_a_zone_are_keys_of_microseconds(tmp_path: Path, table_type: str) -> None:
    """As Apache Hudi 1.2 spells them on all of its write paths; hudi-rs reads no such column."""
    moments = [datetime.fromisoformat(f"{year}-12-31 23:59:59.999999") for year in (1969, 2026)]
    schema = schema_of(at=pa.timestamp("us"), n=pa.int64())
    table = create_table(
        tmp_path / "times", name="times", schema=schema, record_key=["at"], table_type=table_type
    )

    for n in (1, 2):
        outcome = table.write(pa.table([moments, [n, n]], schema=schema), options=DIRECT)
        assert isinstance(outcome, Committed), outcome
    assert meta(table, RECORD_KEY) == ["-1", "1798761599999999"]
    table.delete(pa.table({"at": pa.array(moments[:1], pa.timestamp("us"))}), options=DIRECT)

    assert table.read().to_pylist() == [{"at": moments[1], "n": 2}]
    assert_table_is_sound(table.location)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("table_type", TYPES)
def test_times_with_a_zone_are_keys_of_microseconds_in_utc(
    tmp_path: Path, table_type: str, zone: str
) -> None:
    """As Apache Hudi's upsert spells them, whatever zone a batch shows them in."""
    kind = pa.timestamp("us", zone)
    given = ["1969-12-31 23:59:59.999999+00:00", "2027-01-01 08:59:59.999999+09:00"]
    moments = pa.array([datetime.fromisoformat(one) for one in given], kind)
    schema = schema_of(at=kind, n=pa.int64())
    table = create_table(
        tmp_path / "times", name="times", schema=schema, record_key=["at"], table_type=table_type
    )

    for n in (1, 2):
        outcome = table.write(pa.table([moments, [n, n]], schema=schema), options=DIRECT)
        assert isinstance(outcome, Committed), outcome
    utc = moments.cast(pa.timestamp("us", "UTC"))
    table.write(pa.table({"at": utc[1:], "n": [3]}), options=DIRECT)

    assert meta(table, RECORD_KEY) == ["-1", "1798761599999999"]
    for text in (given[1], "2026-12-31 23:59:59.999999+00:00"):
        moment = datetime.fromisoformat(text)
        assert table.read(where=[("at", "=", moment)]).column("n").to_pylist() == [3]
        query = f"SELECT n FROM t WHERE at = TIMESTAMP '{text}'"
        assert run_sql(query, tables={"t": table}).column("n").to_pylist() == [3]
    table.delete(pa.table({"at": moments[:1]}), options=DIRECT)
    assert table.read().column("n").to_pylist() == [3]
    judged(table)


def test_a_time_with_a_zone_is_one_of_several_key_fields(tmp_path: Path) -> None:
    schema = schema_of(at=pa.timestamp("us", "UTC"), place=pa.string(), n=pa.int64())
    table = create_table(tmp_path / "t", name="t", schema=schema, record_key=["at", "place"])

    table.write(pa.table([[0, 1], ["x", "y"], [1, 2]], schema=schema), options=DIRECT)

    assert meta(table, RECORD_KEY) == ["at:0,place:x", "at:1,place:y"]
    judged(table)


@pytest.mark.parametrize(
    "kind", [pa.timestamp("ms", "UTC"), pa.timestamp("ms"), pa.float64()], ids=str
)
def test_keys_that_hudi_spells_in_several_ways_are_refused(
    tmp_path: Path, kind: pa.DataType
) -> None:
    with pytest.raises(InvalidInput, match="different texts: column=at"):
        create_table(tmp_path / "t", name="t", schema=schema_of(at=kind), record_key=["at"])


@pytest.mark.parametrize("table_type", TYPES)
def test_plain_keys_that_look_like_several_fields_are_written_and_found(
    tmp_path: Path, table_type: str
) -> None:
    schema = schema_of(id=pa.string(), n=pa.int64())
    table = create_table(
        tmp_path / "t", name="t", schema=schema, record_key=["id"], table_type=table_type
    )
    keys = ["a:1,b:2", "id:1,2", "x,y:z", "id:__null__,b:1", "plain"]
    for n in (1, 2):
        table.write(pa.table([keys, [n] * len(keys)], schema=schema), options=DIRECT)
    table.delete(pa.table({"id": keys[:2]}), options=DIRECT)

    assert sorted(table.read().column("id").to_pylist()) == sorted(keys[2:])
    assert set(table.read().column("n").to_pylist()) == {2}
    with pytest.raises(InvalidInput, match="never ends"):
        table.write(pa.table([["http://x:80/a,b"], [1]], schema=schema), options=DIRECT)
    judged(table)


def keyed_by_two(where: Path, table_type: str, hashed: str) -> LakehouseTable:
    return create_table(
        where / "two",
        name="two",
        schema=TWO,
        record_key=["a", "b"],
        table_type=table_type,
        options={"hoodie.bucket.index.num.buckets": "1", HASHED: hashed},
    )


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize(
    ("hashed", "second"), [("a", "10:30"), ("a,b", "x,y:z:w")], ids=["one hashed", "all hashed"]
)
def test_keys_of_several_fields_on_which_hudi_never_ends_are_refused(
    tmp_path: Path, table_type: str, hashed: str, second: str
) -> None:
    table = keyed_by_two(tmp_path, table_type, hashed)
    good = {"a": ["x:1,2", "y"], "b": ["plain", "x,y:z"], "n": [1, 1]}
    table.write(pa.table(good, schema=TWO), options=DIRECT)
    bad = pa.table([["k", "1"], ["plain", second], [1, 1]], schema=TWO)

    refused = r"never ends.*column=a, b.*first_key=a:1,b:.*first_rows=\[1\]"
    with pytest.raises(InvalidInput, match=refused):
        table.write(bad, options=DIRECT)

    assert sorted(table.read().column("a").to_pylist()) == ["x:1,2", "y"]
    judged(table)


@pytest.mark.parametrize("table_type", TYPES)
def test_rows_with_keys_that_are_refused_now_are_read_and_can_be_deleted(
    tmp_path: Path, table_type: str
) -> None:
    """Hashed otherwise afterwards: with one bucket every row stays where it is."""
    stuck = pa.table([["1", "k"], ["10:30", "plain"], [1, 1]], schema=TWO)
    keyed_by_two(tmp_path, table_type, "a,b").write(stuck, options=DIRECT)
    properties = tmp_path / "two/.hoodie/hoodie.properties"
    text = properties.read_text()
    changed = text.replace(f"{HASHED}=a,b", f"{HASHED}=a")
    assert changed != text
    properties.write_text(changed)
    table = open_table(tmp_path / "two")
    with pytest.raises(InvalidInput, match="never ends"):
        table.write(stuck, options=DIRECT)

    outcome = table.delete(stuck.select(["a", "b"]).slice(0, 1), options=DIRECT)

    assert isinstance(outcome, Committed), outcome
    assert table.read().column("a").to_pylist() == ["k"]
    judged(table)
