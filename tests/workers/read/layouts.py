"""Slices drawn by chance from a seed, beside the plain list of versions that they hold."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from tests.support.base_files import write_base_file
from tests.support.log_blocks import encode_delete_columns
from tests.support.memory_storage import MemoryStorage
from tests.support.scenario_table import schema_of
from tests.workers.merge.oracle import KEY, Version, merged_rows
from workers.clock import SystemClock
from workers.files.log_block import encode_avro_block, encode_parquet_block
from workers.files.log_file import write_log_file
from workers.files.meta_columns import with_meta_columns
from workers.merge.versions import DELETE, DELETE_NOW, DELETED, ROW
from workers.options.table_keys import MergeMode, TableType
from workers.options.table_options import TableConfig
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice

COLUMNS = schema_of(id=pa.string(), ts=pa.int64(), a=pa.int32(), b=pa.string())
SCHEMA = TableSchema.from_arrow(COLUMNS, table_name="t")
KEYS = "klmnop"
BASE_INSTANT = "20260101000000000"
LAYOUTS = 40


def config(**changes: Any) -> TableConfig:
    whole = TableConfig(
        name="t",
        table_type=TableType.MERGE_ON_READ,
        version=9,
        record_key=("id",),
        partition_by=(),
        ordering=("ts",),
        merge_mode=MergeMode.EVENT_TIME_ORDERING,
        buckets=1,
    )
    return replace(whole, **changes)


CONFIGS = {
    "event time": config(),
    "commit time": config(merge_mode=MergeMode.COMMIT_TIME_ORDERING, ordering=()),
    "partial updates": config(is_partial_update=True),
}


@dataclass
class Layout:
    """A slice on storage, and the same as versions in the order of merging."""

    config: TableConfig
    seed: int
    orderings: tuple[int | None, ...] = (None, -1, 0, 1, 2, 3)
    deletes: bool = True
    storage: MemoryStorage = field(default_factory=lambda: MemoryStorage(SystemClock()))
    base: list[Version] = field(default_factory=list)
    logs: list[tuple[str, list[Version]]] = field(default_factory=list)
    """Path, and the versions of its blocks."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    @property
    def slice(self) -> FileSlice:
        base = "base.parquet" if self.base else None
        paths = tuple(path for path, _ in self.logs)
        return FileSlice("", "f", BASE_INSTANT if base else None, base, paths)

    def write_base(self) -> None:
        self.base = [self.row(key) for key in KEYS if self.chance.random() < 0.6]
        if self.base:
            rows = with_meta(self.base, list(COLUMNS.names))
            avro = SCHEMA.with_meta_avro()
            write_base_file(self.storage, "base.parquet", rows, avro_schema=avro)

    def write_log(self, number: int) -> None:
        versions: list[Version] = []
        encoded = []
        for _ in range(self.chance.randint(1, 3)):
            made, block = self.block(f"{int(BASE_INSTANT) + 1 + number}")
            versions += made
            encoded.append(block)
        path = f".f_{int(BASE_INSTANT) + 1 + number}.log.1_0-0-0"
        write_log_file(self.storage, path, encoded)
        self.logs.append((path, versions))

    def block(self, instant: str) -> tuple[list[Version], bytes]:
        deletes = ["deletes", "ordered deletes"] if self.deletes else []
        kind = self.chance.choice(["rows", "rows", "narrow", *deletes])
        keys = self.chance.sample(KEYS, self.chance.randint(1, 4))
        if kind == "deletes" or (kind == "ordered deletes" and not self.config.ordering_field):
            block = encode_delete_columns(pa.array(keys), partition="", instant=instant)
            return [self.delete(key, None) for key in keys], block
        if kind == "ordered deletes":
            ordered = [self.delete(key, self.chance.randint(-2, 4)) for key in keys]
            orderings = pa.array([one["ts"] for one in ordered], pa.int64())
            block = encode_delete_columns(
                pa.array(keys), partition="", instant=instant, orderings=orderings
            )
            return ordered, block
        names = list(COLUMNS.names)
        if kind == "narrow":
            names.remove(self.chance.choice("ab"))
        versions = [{name: self.row(key)[name] for name in names} for key in keys]
        encode: Any = self.chance.choice([encode_avro_block, encode_parquet_block])
        block = encode(
            with_meta(versions, names),
            instant=instant,
            avro_schema=SCHEMA.select(names).with_meta_avro(),
            is_partial=kind == "narrow" and not self.config.is_partial_update,
        )
        return versions, block

    def row(self, key: str) -> Version:
        chance = self.chance
        return {
            "id": key,
            "ts": chance.choice(self.orderings),
            "a": chance.choice([None, *range(5)]),
            "b": chance.choice([None, "x", "y", "z"]),
        }

    def delete(self, key: str, ts: int | None) -> Version:
        kind = DELETE_NOW if ts is None else DELETE
        return {"id": key, "ts": ts, "a": None, "b": None, DELETED: kind}

    def wanted(self) -> dict[str, Version]:
        versions = [*self.base, *(one for _, block in self.logs for one in block)]
        keyed = [{KEY: one["id"], DELETED: ROW, **one} for one in versions]
        rows = merged_rows(
            keyed,
            orders=self.config.ordering_field is not None,
            is_partial=self.config.is_partial_update,
        )
        return {key: {name: row.get(name) for name in COLUMNS.names} for key, row in rows.items()}


def layouts(config: TableConfig, **given: Any) -> Iterator[Layout]:
    for seed in range(LAYOUTS):
        layout = Layout(config, seed, **given)
        if seed % 4:
            layout.write_base()
        for number in range(layout.chance.randint(1, 4)):
            layout.write_log(number)
        yield layout


def with_meta(versions: list[Version], names: list[str]) -> pa.Table:
    schema = schema_of(**{name: COLUMNS.field(name).type for name in names})
    rows = pa.Table.from_pylist(versions, schema=schema)
    return with_meta_columns(
        rows,
        instant=BASE_INSTANT,
        keys=rows.column("id"),
        partition="",
        file_name="f",
        task_partition=0,
    )


def keyed(rows: pa.Table) -> dict[str, Version]:
    rows_by_id = {row["id"]: row for row in rows.select(COLUMNS.names).to_pylist()}
    assert len(rows_by_id) == rows.num_rows, "a key twice"
    return rows_by_id


configs = pytest.mark.parametrize("config", CONFIGS.values(), ids=list(CONFIGS))
