"""Log files: the whole is read, the torn is passed over, the foreign is refused by name."""

from __future__ import annotations

import io
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.log_blocks import encode_delete_columns, encode_rollback_block
from tests.workers.files.conftest import OpenGolden
from workers.errors import InvalidInput, LakehouseError, MalformedTable, UnsupportedTable
from workers.files.avro_container import decode_record
from workers.files.delete_record import DELETE_NOW, DeleteRecord
from workers.files.log_block import (
    AvroData,
    BlockType,
    Deletes,
    HeaderKey,
    LogBlock,
    ParquetData,
    Rollback,
    encode_block,
    encode_delete_block,
    encode_parquet_block,
)
from workers.files.log_file import read_log_file, write_log_file
from workers.files.meta_columns import META_COLUMNS, with_meta_columns
from workers.files.names import parse_log_file
from workers.schema.table_schema import TableSchema
from workers.storage.local import LocalStorage

FIRST, SECOND, THIRD = (f"2026010100000000{n}" for n in (1, 2, 3))
ROWS = pa.table({"id": ["a", "b"], "ts": [1, None], "note": ["#HUDI#", None]})
SCHEMA = TableSchema.from_arrow(ROWS.schema, table_name="t")
PATH = f".00000003-0000-0000-0000-000000000000-0_{FIRST}.log.1_0-0-0"


def with_meta(rows: pa.Table, instant: str) -> pa.Table:
    return with_meta_columns(
        rows,
        instant=instant,
        keys=rows.column("id"),
        partition="",
        file_name="00000003-0000-0000-0000-000000000000-0",
        task_partition=0,
    )


def data_block(instant: str, columns: tuple[str, ...] = ("id", "ts", "note")) -> bytes:
    rows = with_meta(ROWS.select(columns), instant)
    return encode_parquet_block(
        rows, instant=instant, avro_schema=SCHEMA.select(columns).with_meta_avro()
    )


def logged(storage: LocalStorage, *blocks: bytes) -> list[LogBlock]:
    storage.delete(PATH)
    write_log_file(storage, PATH, blocks)
    return read_log_file(storage, PATH)


def instants(blocks: list[LogBlock]) -> list[str]:
    return [block.instant for block in blocks]


def test_rows_deletes_and_a_rollback_come_back_in_order(storage: LocalStorage) -> None:
    deletes = (
        DeleteRecord("a", "p=1", DELETE_NOW),
        DeleteRecord("b", "", ("LongWrapper", 7)),
        DeleteRecord("c", "", None),
        DeleteRecord("d", "", ("StringWrapper", "x")),
    )

    data, deleted, rolled_back = logged(
        storage,
        data_block(FIRST),
        encode_delete_block(deletes, instant=SECOND),
        encode_rollback_block(instant=THIRD, target=FIRST),
    )

    assert isinstance(data, ParquetData)
    assert data.table() == with_meta(ROWS, FIRST)
    assert not data.is_partial
    assert deleted == Deletes(SECOND, deletes)
    assert rolled_back == Rollback(THIRD, FIRST)


def test_a_streams_block_holds_its_own_columns_and_says_so(storage: LocalStorage) -> None:
    [block] = logged(storage, data_block(FIRST, ("id", "ts")))

    assert isinstance(block, ParquetData)
    assert block.table().column_names == [*META_COLUMNS, "id", "ts"]
    fields = json.loads(block.avro_schema)["fields"]
    assert [field["name"] for field in fields] == [*META_COLUMNS, "id", "ts"]


def test_a_block_flagged_partial_is_known_as_such(storage: LocalStorage) -> None:
    rows = with_meta(ROWS, FIRST)
    avro = SCHEMA.with_meta_avro()

    [block] = logged(
        storage, encode_parquet_block(rows, instant=FIRST, avro_schema=avro, is_partial=True)
    )

    assert isinstance(block, ParquetData)
    assert block.is_partial


def test_the_bytes_of_a_block_are_those_of_the_format() -> None:
    block = encode_rollback_block(instant=FIRST, target=SECOND)

    assert block[:6] == b"#HUDI#"
    (size,) = struct.unpack(">q", block[6:14])
    assert struct.unpack(">ii", block[14:22]) == (1, 0)
    assert len(block) == size + 14
    assert struct.unpack(">q", block[-8:]) == (size + 6,)


def test_a_tail_torn_at_any_byte_loses_only_the_last_block(storage: LocalStorage) -> None:
    whole = data_block(FIRST)
    last = encode_delete_block([DeleteRecord("a", "", DELETE_NOW)], instant=SECOND)

    for length in range(len(last)):
        assert instants(logged(storage, whole, last[:length])) == [FIRST], length


def test_a_corrupt_stretch_is_skipped_to_the_next_block(storage: LocalStorage) -> None:
    torn = data_block(SECOND)[:-100]
    overlong = bytearray(data_block(SECOND))
    overlong[6:14] = struct.pack(">q", 10**9)

    for stretch in (torn, bytes(overlong), b"garbage", b"#HUDI#", b"\x00" * 64):
        blocks = logged(storage, data_block(FIRST), stretch, data_block(THIRD))
        assert instants(blocks) == [FIRST, THIRD], stretch[:20]


def test_a_block_that_another_writer_marked_corrupt_is_passed_over(storage: LocalStorage) -> None:
    corrupt = encode_block(BlockType.CORRUPT, {}, b"whatever")

    assert instants(logged(storage, corrupt, data_block(FIRST))) == [FIRST]


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (encode_block(BlockType.HFILE_DATA, {}, b""), "HFILE_DATA"),
        (encode_block(BlockType.CDC_DATA, {}, b""), "CDC_DATA"),
        (encode_block(BlockType.DELETE, {0: FIRST}, struct.pack(">ii", 2, 0)), "version=2"),
        (encode_block(BlockType.COMMAND, {0: FIRST, 1: FIRST, 3: "1"}, b""), "command=1"),
        (
            encode_block(BlockType.PARQUET_DATA, {0: FIRST, 2: "{}", 4: FIRST}, b""),
            "log compaction",
        ),
    ],
)
def test_a_block_that_cannot_be_merged_is_refused_by_name(
    storage: LocalStorage, block: bytes, says: str
) -> None:
    with pytest.raises(UnsupportedTable, match=says) as refused:
        logged(storage, data_block(FIRST), block)

    assert refused.value.values["path"] == PATH


def test_a_whole_block_that_makes_no_sense_is_an_error_and_not_a_loss(
    storage: LocalStorage,
) -> None:
    with pytest.raises(MalformedTable, match="INSTANT_TIME"):
        logged(storage, encode_block(BlockType.PARQUET_DATA, {HeaderKey.SCHEMA: "{}"}, b""))
    with pytest.raises(MalformedTable, match="delete block"):
        logged(storage, encode_block(BlockType.DELETE, {0: FIRST}, struct.pack(">ii", 3, 9)))
    header = {int(HeaderKey.INSTANT_TIME): FIRST, int(HeaderKey.SCHEMA): SCHEMA.avro_json}
    damaged = [
        encode_block(BlockType.PARQUET_DATA, header, b"no rows"),
        encode_block(BlockType.AVRO_DATA, header, b"no rows"),
        encode_block(BlockType.AVRO_DATA, {**header, 2: "{"}, struct.pack(">ii", 3, 0)),
    ]
    for encoded in damaged:
        [block] = logged(storage, encoded)
        assert isinstance(block, ParquetData | AvroData)
        with pytest.raises(MalformedTable):
            block.table()


def test_rows_in_avro_are_read_into_the_same_columns(storage: LocalStorage) -> None:
    avro: dict[str, Any] = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
            {"name": "sizes", "type": {"type": "map", "values": "long"}},
        ],
    }
    beyond_python = 400_000_000_000_000_000  # A date after year 9999.
    physical = {"day": 20000, "at": beyond_python, "tags": ["x", None], "sizes": {"k": 1}}
    plain = json.loads(json.dumps(avro).replace("logicalType", "ignored"))
    datum = io.BytesIO()
    fastavro.schemaless_writer(datum, fastavro.parse_schema(plain), physical)
    content = struct.pack(">iii", 3, 1, len(datum.getvalue())) + datum.getvalue()
    header = {0: FIRST, 2: json.dumps(avro)}

    [block] = logged(storage, encode_block(BlockType.AVRO_DATA, header, content))

    assert isinstance(block, AvroData)
    table = block.table()
    assert table.schema.types[:2] == [pa.date32(), pa.timestamp("us", "UTC")]
    assert table.column("at").cast(pa.int64()).to_pylist() == [beyond_python]
    assert table.column("tags").to_pylist() == [["x", None]]
    assert table.column("sizes").to_pylist() == [[("k", 1)]]


def test_a_log_file_is_written_once(storage: LocalStorage) -> None:
    size = write_log_file(storage, PATH, [data_block(FIRST)])

    assert size == len(storage.read(PATH))
    with pytest.raises(InvalidInput):
        write_log_file(storage, PATH, [data_block(SECOND)])


@settings(deadline=None)
@given(st.data())
def test_no_damage_to_a_log_file_ends_in_anything_but_our_own_errors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    storage = LocalStorage(Path(tmp_path_factory.getbasetemp()) / "damaged")
    content = bytearray(
        data_block(FIRST)
        + encode_delete_block([DeleteRecord("a", "", DELETE_NOW)], instant=SECOND)
        + encode_rollback_block(instant=THIRD, target=FIRST)
    )
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    storage.put(PATH, bytes(content[: data.draw(st.integers(0, len(content)))]))

    try:
        for block in read_log_file(storage, PATH):
            if isinstance(block, ParquetData | AvroData):
                block.table()
    except LakehouseError:
        pass


@pytest.mark.parametrize(
    "table", ["mor-avro-v9_txns_simple_meta", "mor-avro-v9_txns_nonpart", "mor-avro-v8_trips"]
)
def test_the_logs_that_hudi_wrote_hold_what_its_commits_say(golden: OpenGolden, table: str) -> None:
    storage = golden(table)
    commits = [
        decode_record(storage.read(info.path))
        for info in storage.list_files(".hoodie/timeline")
        if info.name.endswith(".deltacommit")
    ]
    stats = {
        stat["path"]: stat
        for commit in commits
        for partition in commit["partitionToWriteStats"].values()
        for stat in partition
        if stat["path"].rpartition("/")[2].startswith(".")
    }

    assert stats
    for path, stat in stats.items():
        blocks = read_log_file(storage, path)
        rows = sum(block.table().num_rows for block in blocks if isinstance(block, AvroData))
        deletes = sum(len(block.records) for block in blocks if isinstance(block, Deletes))
        name = parse_log_file(path.rpartition("/")[2])
        assert name is not None
        assert (rows, deletes) == (stat["numWrites"], stat["numDeletes"])
        assert set(instants(blocks)) == {name.instant}
        assert name.file_id == stat["fileId"]


def test_a_table_of_version_6_holds_parquet_blocks_and_a_rollback_of_one(
    golden: OpenGolden,
) -> None:
    storage = golden("mor-parquet-v6_nonpartitioned_rollback")
    logs = sorted(
        (name.version, info.path)
        for info in storage.list_files("")
        if (name := parse_log_file(info.name))
    )

    first, rollback, second = [block for _, path in logs for block in read_log_file(storage, path)]

    assert isinstance(first, ParquetData)
    assert rollback == Rollback("20250126040936578", first.instant)
    assert isinstance(second, ParquetData)
    assert second.table().column("name").to_pylist() == ["Bob"]


@pytest.mark.parametrize(
    ("orderings", "wrappers"),
    [
        (None, [DELETE_NOW, DELETE_NOW, DELETE_NOW]),
        (pa.array([1, -2, 2**31 - 1], pa.int32()), "IntWrapper"),
        (pa.array([0, -1, 2**62], pa.int64()), "LongWrapper"),
        (pa.array([0.5, -0.0, 1e300], pa.float64()), "DoubleWrapper"),
        (pa.array(["", "é" * 200, "x"]), "StringWrapper"),
        (pa.array([True, False, True]), "BooleanWrapper"),
        (pa.array([0, 1, 20_000], pa.date32()), "DateWrapper"),
        (pa.array([0, 1, 10**15], pa.timestamp("us", "UTC")), "TimestampMicrosWrapper"),
        (
            pa.array([Decimal("1.10"), Decimal(-5), Decimal(0)], pa.decimal128(9, 2)),
            "DecimalWrapper",
        ),
    ],
    ids=str,
)
def test_deletes_of_a_whole_column_are_those_of_one_record_each(
    storage: LocalStorage, orderings: pa.Array[Any] | None, wrappers: Any
) -> None:
    keys = pa.array(["a", "", "é" * 300])

    [block] = logged(
        storage, encode_delete_columns(keys, partition="p=1", instant=FIRST, orderings=orderings)
    )

    assert isinstance(block, Deletes)
    assert [(one.key, one.partition) for one in block.records] == [
        (key, "p=1") for key in keys.to_pylist()
    ]
    record_orderings = [one.ordering for one in block.records]
    if orderings is None:
        assert record_orderings == wrappers
    else:
        assert [one and one[0] for one in record_orderings] == [wrappers] * 3
        assert [one and one[1] for one in record_orderings] == orderings.to_pylist()


def test_no_deletes_at_all_are_an_empty_list(storage: LocalStorage) -> None:
    nothing = pa.array([], pa.string())

    assert logged(storage, encode_delete_columns(nothing, partition="", instant=FIRST)) == [
        Deletes(FIRST, ())
    ]


def test_delete_that_is_ordered_by_null_or_by_a_list_is_refused() -> None:
    keys = pa.array(["a"])

    with pytest.raises(InvalidInput, match="needs one"):
        encode_delete_columns(
            keys, partition="", instant=FIRST, orderings=pa.array([None], pa.int64())
        )
    with pytest.raises(UnsupportedTable, match="not ordered by values of this type"):
        encode_delete_columns(keys, partition="", instant=FIRST, orderings=pa.array([[1]]))
