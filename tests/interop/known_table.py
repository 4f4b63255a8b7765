"""A table of ours beside what it must hold: rows kept in a dictionary by plain Python."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.hudi_peer import HudiPeer, write_options
from tests.support.referee import referee_table
from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.options.write_options import write_options as engine_options
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceOutcome, ServiceRequest

Row = dict[str, Any]
Key = tuple[Any, ...]

_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "n": pa.int64(),
    "ts": pa.int64(),
    "place": pa.string(),
    "region": pa.string(),
    "value": pa.float64(),
    "at": pa.timestamp("us", "UTC"),
    "price": pa.decimal128(10, 2),
    "note": pa.string(),
}
SCHEMA = pa.schema(_TYPES)
COLUMNS = SCHEMA.names
NAME = "known"
BUCKETS = 2
PLACES = ("Oslo", "a/b=c d", "Köln")
REGIONS = ("north", "south")
PLAIN_PLACES = ("Oslo", "Rome", "Lima")


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of table and the state that it is brought into."""

    table_type: str
    log_format: str
    key: str
    partitioning: str
    state: str

    def __str__(self) -> str:
        kind = {"COPY_ON_WRITE": "cow", "MERGE_ON_READ": "mor"}[self.table_type]
        return f"{kind}-{self.log_format}-{self.key}-{self.partitioning}-{self.state}"

    @property
    def record_key(self) -> list[str]:
        return ["id"] if self.key == "simple" else ["id", "n"]

    @property
    def partition_by(self) -> list[str]:
        fields = {"none": [], "two": ["region", "place"]}
        return fields.get(self.partitioning, ["place"])

    @property
    def options(self) -> dict[str, str]:
        return {
            "hoodie.bucket.index.num.buckets": str(BUCKETS),
            "hoodie.datasource.write.hive_style_partitioning": _text(self.partitioning == "two"),
            "hoodie.datasource.write.partitionpath.urlencode": _text(
                self.partitioning == "encoded"
            ),
        }


def _text(value: bool) -> str:
    return str(value).lower()


@dataclass
class KnownTable:
    location: Path
    cell: Cell
    rows: dict[Key, Row] = field(default_factory=dict)
    history: list[dict[Key, Row]] = field(default_factory=list)
    _clock: int = 0

    def __post_init__(self) -> None:
        create_table(
            self.location,
            name=NAME,
            schema=SCHEMA,
            record_key=self.cell.record_key,
            partition_by=self.cell.partition_by,
            ordering=["ts"],
            table_type=self.cell.table_type,
            options=self.cell.options,
        )

    @property
    def table(self) -> LakehouseTable:
        return open_table(self.location)

    # What is done to both.

    def upsert(self, numbers: Iterable[int], note: str, operation: str = "upsert") -> None:
        rows = self.fresh(numbers, note)
        self.write(rows, operation)
        self._apply(rows)

    def write(self, rows: list[Row], operation: str) -> None:
        options = {"hoodie.write.markers.type": "direct"}
        if self.cell.log_format != "parquet":
            options["hoodie.logfile.data.block.format"] = self.cell.log_format
        batch = pa.Table.from_pylist(rows, schema=SCHEMA)
        outcome = self.table.write(batch, operation=operation, options=options)
        assert isinstance(outcome, Committed), outcome

    def delete(self, numbers: Iterable[int]) -> None:
        doomed = self.fresh(numbers, "doomed")
        columns = list(dict.fromkeys([*self.cell.record_key, *self.cell.partition_by]))
        keys = pa.Table.from_pylist(doomed, schema=SCHEMA).select(columns)
        outcome = self.table.delete(keys=keys, options={"hoodie.write.markers.type": "direct"})
        assert isinstance(outcome, Committed), outcome
        self._remember()
        for row in doomed:
            self.rows.pop(self._key(row), None)

    def insert_overwrite(self, numbers: Iterable[int], note: str) -> None:
        rows = self.fresh(numbers, note)
        self.write(rows, "insert_overwrite")
        touched = {self._partition(row) for row in rows}
        self._remember()
        self.rows = {
            key: row for key, row in self.rows.items() if self._partition(row) not in touched
        }
        self.rows |= {self._key(row): row for row in rows}

    def serve(self, name: str, **parameters: str) -> ServiceOutcome:
        """Run a table service; the rows stay what they are."""
        options = engine_options({"hoodie.write.markers.type": "direct"})
        request = ServiceRequest(by="interop", reason="test", parameters=parameters)
        outcome = get_service(name).run(self.table.table, request, options)
        assert outcome.instant is not None or outcome.figures, outcome  # It did something.
        return outcome

    def roll_back_newest(self) -> None:
        newest = self.newest()
        self.table.rollback(newest, dry_run=False, reason="test", by="interop")
        self.rows = self.history.pop()

    def newest(self) -> str:
        return self.table.table.timeline().list_completed_writes()[-1].requested_at

    # What must be true of it.

    def assert_all_read_it(self, peer: HudiPeer) -> None:
        assert _plain(self.table.read()) == self.expected(), "Sluice"
        assert _plain(referee_table(self.location)) == self.expected(), "hudi-rs"
        assert _plain(peer.read(self.location)) == self.expected(), "Apache Hudi"

    def expected(self) -> list[str]:
        return _plain(pa.Table.from_pylist(list(self.rows.values()), schema=SCHEMA))

    def let_hudi_upsert(self, peer: HudiPeer, numbers: Iterable[int], note: str) -> None:
        rows = self.fresh(numbers, note)
        options = self._peer_options(operation="upsert")
        peer.write(self.location, pa.Table.from_pylist(rows, schema=SCHEMA), options)
        self._apply(rows)

    def let_hudi_compact(self, peer: HudiPeer) -> None:
        options = (
            "options => 'hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false'"
        )
        keys = ",".join(self.cell.record_key)
        peer.sql(
            f"set hoodie.bucket.index.hash.field={keys}",
            f"set hoodie.datasource.write.recordkey.field={keys}",
            f"set hoodie.bucket.index.num.buckets={BUCKETS}",
            f"call run_compaction(op => 'schedule', path => '{self.location}', {options})",
            f"call run_compaction(op => 'run', path => '{self.location}', {options})",
        )

    def _peer_options(self, operation: str) -> dict[str, str]:
        return write_options(
            name=NAME,
            record_key=self.cell.record_key,
            partition_by=self.cell.partition_by,
            ordering=["ts"],
            buckets=BUCKETS,
            table_type=self.cell.table_type,
            operation=operation,
            **{key: value for key, value in self.cell.options.items() if "datasource" in key},
        )

    def fresh(self, numbers: Iterable[int], note: str) -> list[Row]:
        """Rows of these numbers, newer than all before."""
        self._clock += 1
        places = PLACES if self.cell.partitioning == "encoded" else PLAIN_PLACES
        return [
            {
                "id": f"k{number}",
                "n": number * 10,
                "ts": self._clock,
                "place": places[number % 3],
                "region": REGIONS[number % 2],
                "value": number / 4,
                "at": dt.datetime(2024, 2, 29, 12, number % 60, 7, 123456, tzinfo=dt.UTC),
                "price": Decimal(number) / 100 - 3,
                "note": note if number % 5 else None,
            }
            for number in numbers
        ]

    def _apply(self, rows: list[Row]) -> None:
        self._remember()
        self.rows |= {self._key(row): row for row in rows}

    def _remember(self) -> None:
        self.history.append(dict(self.rows))

    def _key(self, row: Row) -> Key:
        return (*(row[name] for name in self.cell.record_key), self._partition(row))

    def _partition(self, row: Row) -> Key:
        return tuple(row[name] for name in self.cell.partition_by)


def _plain(rows: pa.Table) -> list[str]:
    """One text per row; the types must be the table's own."""
    if not rows.num_columns:
        return []
    listed = rows.select(COLUMNS)
    types = {field.name: field.type for field in listed.schema}
    assert types == {field.name: field.type for field in SCHEMA}, types
    return sorted(repr(list(row.values())) for row in listed.to_pylist())


State = Callable[[KnownTable], None]
