"""Slices of many layouts: what is read is what a plain list of versions says, folded or not.

Layouts are drawn by chance from a seed, which a failure names.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.support.base_files import write_base_file
from tests.support.log_blocks import encode_delete_columns, encode_rollback_block
from tests.support.memory_storage import MemoryStorage
from tests.support.scenario_table import schema_of
from tests.workers.read.layouts import (
    BASE_INSTANT,
    COLUMNS,
    CONFIGS,
    LAYOUTS,
    SCHEMA,
    Layout,
    config,
    configs,
    keyed,
    layouts,
    with_meta,
)
from workers.clock import SystemClock
from workers.errors import MalformedTable, UnsupportedTable
from workers.files.base_file import write_base_parts
from workers.files.delete_record import DeleteRecord
from workers.files.log_block import encode_avro_block, encode_delete_block, encode_parquet_block
from workers.files.log_file import write_log_file
from workers.files.meta_columns import META_COLUMNS, RECORD_KEY, with_meta_columns
from workers.merge.mergers import register_merger
from workers.options.table_keys import MergeMode
from workers.options.table_options import TableConfig
from workers.read.file_slice import merge_slice_batches, read_slice
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice


@pytest.mark.sampled(every=3)
@configs
def test_any_layout_of_logs_reads_as_its_versions_say(config: TableConfig) -> None:
    """H1 (wrong log selection loses data) and H4 (absent is not null), over many small layouts."""
    for layout in layouts(config):
        rows = read_slice(layout.storage, config, SCHEMA, layout.slice)

        assert keyed(rows) == layout.wanted(), f"seed={layout.seed}"
        assert rows.column_names == [*META_COLUMNS, *COLUMNS.names]


@pytest.mark.sampled(every=3)
@configs
def test_any_layout_reads_the_same_after_it_was_folded_into_a_base_file(
    config: TableConfig,
) -> None:
    """H1: the merged view is the same before and after compaction."""
    for layout in layouts(config):
        before = keyed(read_slice(layout.storage, config, SCHEMA, layout.slice))
        batches = merge_slice_batches(layout.storage, config, SCHEMA, layout.slice)
        parts = [pa.Table.from_batches([batch]) for batch in batches]
        if not parts:
            assert before == {}, f"seed={layout.seed}"
            continue
        avro = SCHEMA.with_meta_avro()
        write_base_parts(layout.storage, "folded.parquet", parts, avro_schema=avro)

        folded = FileSlice("", "f", BASE_INSTANT, "folded.parquet")
        after = keyed(read_slice(layout.storage, config, SCHEMA, folded))

        assert after == before, f"seed={layout.seed}"


@pytest.mark.sampled(every=3)
@configs
def test_reading_few_columns_gives_the_same_values(config: TableConfig) -> None:
    """H5: what decides is read by name, whatever columns the reader asked for."""
    for layout in layouts(config):
        whole = keyed(read_slice(layout.storage, config, SCHEMA, layout.slice))
        few = read_slice(layout.storage, config, SCHEMA, layout.slice, columns=["id", "b"])

        assert few.column_names == ["id", "b"]
        wanted = [(row["id"], row["b"]) for row in whole.values()]
        pairs = [(row["id"], row["b"]) for row in few.to_pylist()]
        assert sorted(pairs, key=repr) == sorted(wanted, key=repr), f"seed={layout.seed}"


def test_streams_that_share_their_ordering_value_may_be_folded_at_any_point() -> None:
    """H3 and MS5: folding some logs and merging the rest later changes nothing."""
    for layout in layouts(CONFIGS["partial updates"], orderings=(1,), deletes=False):
        assert_folds_anywhere(layout)


def test_whole_rows_may_be_folded_at_any_point() -> None:
    """MS5. A delete with an ordering value is not remembered by a base file; others need not be."""
    for layout in layouts(CONFIGS["commit time"]):
        assert_folds_anywhere(layout)


def assert_folds_anywhere(layout: Layout) -> None:
    whole = layout.slice
    for cut in range(1, len(whole.log_files)):
        head = replace(whole, log_files=whole.log_files[:cut])
        rows = read_slice(layout.storage, layout.config, SCHEMA, head)
        path = f"cut{cut}.parquet"
        write_base_file(layout.storage, path, rows, avro_schema=SCHEMA.with_meta_avro())
        tail = replace(
            whole, base_file=path, base_instant=BASE_INSTANT, log_files=whole.log_files[cut:]
        )
        rows_by_id = keyed(read_slice(layout.storage, layout.config, SCHEMA, tail))
        assert rows_by_id == layout.wanted(), f"seed={layout.seed} cut={cut}"


def test_rollback_commands_take_back_every_earlier_block_of_their_target() -> None:
    """B15: any distance back, through other writers' blocks, and across files of the slice."""
    writers = [f"{int(BASE_INSTANT) + number}" for number in (1, 2, 3)]
    for seed in range(LAYOUTS):
        chance = random.Random(seed)
        storage = MemoryStorage(SystemClock())
        completed = {one for one in writers if chance.random() < 0.8}
        blocks: list[tuple[str, str, int]] = []
        for number in range(chance.randint(1, 12)):
            kind = "rollback" if chance.random() < 0.3 else "data"
            blocks.append((kind, chance.choice(writers), number))
        paths: list[str] = []
        size = chance.randint(1, 4)
        for at in range(0, len(blocks), size):
            encoded = [encoded_block(*one) for one in blocks[at : at + size]]
            paths.append(f".f_{BASE_INSTANT}.log.{len(paths) + 1}_0-0-0")
            write_log_file(storage, paths[-1], encoded)

        slice_ = FileSlice("", "f", None, None, tuple(paths), tuple(completed), BASE_INSTANT)
        ids = set(keyed(read_slice(storage, CONFIGS["event time"], SCHEMA, slice_)))

        assert ids == surviving(blocks, completed), f"seed={seed}"


def encoded_block(kind: str, writer: str, number: int) -> bytes:
    if kind == "rollback":
        return encode_rollback_block(instant="20260102000000000", target=writer)
    rows = with_meta([{"id": f"row{number}", "ts": 1, "a": 1, "b": "x"}], list(COLUMNS.names))
    return encode_parquet_block(rows, instant=writer, avro_schema=SCHEMA.with_meta_avro())


def surviving(blocks: list[tuple[str, str, int]], completed: set[str]) -> set[str]:
    writer_by_row: dict[str, str] = {}
    for kind, writer, number in blocks:
        if kind == "data" and writer in completed:
            writer_by_row[f"row{number}"] = writer
        elif kind == "rollback":
            writer_by_row = {row: owner for row, owner in writer_by_row.items() if owner != writer}
    return set(writer_by_row)


def test_blocks_older_than_the_timeline_count_in_version_6() -> None:
    storage = MemoryStorage(SystemClock())
    path = f".f_{BASE_INSTANT}.log.1_0-0-0"
    old, unknown = "20250101000000000", "20270101000000000"
    write_log_file(
        storage, path, [encoded_block("data", old, 1), encoded_block("data", unknown, 2)]
    )

    slice_ = FileSlice("", "f", None, None, (path,), (), BASE_INSTANT)

    rows = read_slice(storage, CONFIGS["event time"], SCHEMA, slice_)
    assert set(keyed(rows)) == {"row1"}


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.date32(), pa.timestamp("us", "UTC"), pa.float64()]
)
def test_ordered_deletes_compare_by_the_type_of_their_column(kind: pa.DataType) -> None:
    schema = TableSchema.from_arrow(schema_of(id=pa.string(), ts=kind), table_name="t")
    orderings = pa.array([1, 2, 3], pa.int32())
    values: Any = (
        orderings.cast(pa.int64()).cast(kind) if kind != pa.date32() else (orderings.cast(kind))
    )
    storage, log = MemoryStorage(SystemClock()), f".f_{BASE_INSTANT}.log.1_0-0-0"
    rows = pa.table({"id": ["older", "equal", "newer"], "ts": pa.concat_arrays([values])})
    write_base_file(
        storage,
        "base.parquet",
        with_meta_columns(
            rows,
            instant=BASE_INSTANT,
            keys=rows.column("id"),
            partition="",
            file_name="f",
            task_partition=0,
        ),
        avro_schema=schema.with_meta_avro(),
    )
    middle = values.take(pa.array([1, 1, 1]))
    block = encode_delete_columns(
        rows.column("id"), partition="", instant=BASE_INSTANT, orderings=middle
    )
    write_log_file(storage, log, [block])

    live_rows = read_slice(
        storage,
        CONFIGS["event time"],
        schema,
        FileSlice("", "f", BASE_INSTANT, "base.parquet", (log,)),
    )

    assert live_rows.column("id").to_pylist() == ["newer"]


def test_delete_ordered_by_another_type_than_the_tables_is_an_error_and_not_a_loss() -> None:
    storage, log = MemoryStorage(SystemClock()), f".f_{BASE_INSTANT}.log.1_0-0-0"
    block = encode_delete_block(
        [DeleteRecord("k", "", ("StringWrapper", "soon"))], instant=BASE_INSTANT
    )
    write_log_file(storage, log, [block])

    with pytest.raises(MalformedTable, match="another type"):
        read_slice(storage, CONFIGS["event time"], SCHEMA, FileSlice("", "f", None, None, (log,)))


def test_rows_that_say_they_are_deleted_are_no_rows() -> None:
    schema = TableSchema.from_arrow(
        schema_of(id=pa.string(), ts=pa.int64(), _hoodie_is_deleted=pa.bool_()), table_name="t"
    )
    rows = pa.table(
        {"id": ["k", "l", "m"], "ts": [1, 1, 1], "_hoodie_is_deleted": [True, False, None]}
    )
    storage, log = MemoryStorage(SystemClock()), f".f_{BASE_INSTANT}.log.1_0-0-0"
    full = with_meta_columns(
        rows,
        instant=BASE_INSTANT,
        keys=rows.column("id"),
        partition="",
        file_name="f",
        task_partition=0,
    )
    avro = schema.with_meta_avro()
    write_log_file(storage, log, [encode_avro_block(full, instant=BASE_INSTANT, avro_schema=avro)])
    slice_ = FileSlice("", "f", None, None, (log,))

    for table_config in CONFIGS.values():
        live_rows = read_slice(storage, table_config, schema, slice_, columns=["id"])
        assert live_rows.to_pylist() == [{"id": "l"}, {"id": "m"}]


def test_partial_blocks_and_a_registered_merger_are_refused_together() -> None:
    register_merger("test-newest", newest)
    layout = Layout(config(merge_mode=MergeMode.CUSTOM, merger="test-newest"), seed=0)
    rows = with_meta([{"id": "k", "ts": 1}], ["id", "ts"])
    block = encode_parquet_block(
        rows,
        instant=BASE_INSTANT,
        avro_schema=SCHEMA.select(["id", "ts"]).with_meta_avro(),
        is_partial=True,
    )
    write_log_file(layout.storage, "log", [block])

    with pytest.raises(UnsupportedTable, match="registered merger"):
        read_slice(layout.storage, layout.config, SCHEMA, FileSlice("", "f", None, None, ("log",)))


def test_logs_are_not_merged_by_the_first_of_several_ordering_fields() -> None:
    """The second decides where the first is equal: choosing without it would be a silent error."""
    layout = Layout(config(ordering=("ts", "a")), seed=0)
    names = ["id", "ts", "a"]
    layout.base = [{"id": "k", "ts": 1, "a": 2, "b": None}]
    write_base_file(
        layout.storage,
        "base.parquet",
        with_meta(layout.base, list(COLUMNS.names)),
        avro_schema=SCHEMA.with_meta_avro(),
    )
    block = encode_parquet_block(
        with_meta([{"id": "k", "ts": 1, "a": 1}], names),
        instant=BASE_INSTANT,
        avro_schema=SCHEMA.select(names).with_meta_avro(),
    )
    write_log_file(layout.storage, "log", [block])

    slice_ = layout.slice
    assert read_slice(layout.storage, layout.config, SCHEMA, slice_).num_rows == 1
    with pytest.raises(UnsupportedTable, match="several ordering fields"):
        read_slice(layout.storage, layout.config, SCHEMA, replace(slice_, log_files=("log",)))


def of_a_log(layout: Layout, rows: pa.Table) -> FileSlice:
    """A slice of one log of these rows, without a base file."""
    block = encode_parquet_block(
        rows, instant=BASE_INSTANT, avro_schema=SCHEMA.select(COLUMNS.names).with_meta_avro()
    )
    write_log_file(layout.storage, "log", [block])
    return FileSlice("", "f", None, None, ("log",))


@configs
def test_a_log_with_a_row_that_has_no_key_is_broken(config: TableConfig) -> None:
    rows = with_meta([{"id": "k", "ts": 1, "a": 2, "b": None}], list(COLUMNS.names))
    at = rows.column_names.index(RECORD_KEY)
    rows = rows.set_column(at, rows.schema.field(at), pa.nulls(1, pa.string()))
    layout = Layout(config, seed=0)

    with pytest.raises(MalformedTable, match=r"without a record key.*file_group=f"):
        read_slice(layout.storage, config, SCHEMA, of_a_log(layout, rows))


def test_logs_are_not_merged_by_a_column_that_there_is_not() -> None:
    layout = Layout(config(ordering=("absent",)), seed=0)
    rows = with_meta([{"id": "k", "ts": 1, "a": 2, "b": None}], list(COLUMNS.names))

    with pytest.raises(MalformedTable, match=r"ordered by a column.*ordering=absent"):
        read_slice(layout.storage, layout.config, SCHEMA, of_a_log(layout, rows))


def newest(older: pa.Table, newer: pa.Table) -> pa.Table:
    return newer


def test_null_that_a_partial_block_says_is_written_and_an_absent_column_is_kept() -> None:
    """H4."""
    layout = Layout(CONFIGS["event time"], seed=1)
    layout.base = [{"id": "k", "ts": 1, "a": 1, "b": "old"}]
    write_base_file(
        layout.storage,
        "base.parquet",
        with_meta(layout.base, list(COLUMNS.names)),
        avro_schema=SCHEMA.with_meta_avro(),
    )
    block = encode_parquet_block(
        with_meta([{"id": "k", "ts": 2, "a": None}], ["id", "ts", "a"]),
        instant=BASE_INSTANT,
        avro_schema=SCHEMA.select(["id", "ts", "a"]).with_meta_avro(),
        is_partial=True,
    )
    write_log_file(layout.storage, "log", [block])
    slice_ = replace(layout.slice, log_files=("log",))

    rows = read_slice(layout.storage, layout.config, SCHEMA, slice_)

    assert keyed(rows) == {"k": {"id": "k", "ts": 2, "a": None, "b": "old"}}
