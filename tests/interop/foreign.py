"""Tables that Apache Hudi makes here, of kinds that the sample tables do not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from tests.support.hudi_peer import HudiPeer

_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "n": pa.int64(),
    "ts": pa.int64(),
    "place": pa.string(),
    "note": pa.string(),
}
SCHEMA = pa.schema(_TYPES)
_KEYGEN = "org.apache.hudi.keygen."
_FULL_ARCHIVE = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.commits.archival.batch": "1",
}


@dataclass
class ForeignTable:
    """One table of Hudi's, written through its data source and its procedures."""

    location: Path
    peer: HudiPeer
    options: dict[str, str] = field(default_factory=dict)
    pending: tuple[str, ...] = ()
    """Actions that are left pending in the end."""
    twin: ForeignTable | None = None
    """With the same rows, where no other reader takes this one."""
    writes: int = 0
    """That were completed and not rolled back."""
    _clock: int = 0

    def rows(
        self, numbers: Iterable[int], note: str, *, clock: int | None = None
    ) -> list[dict[str, Any]]:
        self._clock += 1
        return [
            {
                "id": f"k{number}",
                "n": number * 10,
                "ts": 1_700_000_000_000 + (self._clock if clock is None else clock),
                "place": ("Oslo", "Rome", "Lima")[number % 3],
                "note": note if number % 5 else None,
            }
            for number in numbers
        ]

    def write(
        self,
        numbers: Iterable[int],
        note: str,
        operation: str = "upsert",
        *,
        clock: int | None = None,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        batch = pa.Table.from_pylist(self.rows(numbers, note, clock=clock), schema=SCHEMA)
        given = {"hoodie.datasource.write.operation": operation, **more}
        self.peer.write(self.location, batch, {**self.options, **given})
        self.writes += 1

    def call(self, procedure: str, *arguments: str) -> list[list[list[str]]]:
        given = ", ".join([f"path => '{self.location}'", *arguments])
        return self.peer.sql(f"call {procedure}({given})")

    def judged(self, *, as_of: str | None = None, is_read_optimized: bool = False) -> pa.Table:
        """What Hudi sees."""
        read_options = {"as.of.instant": as_of} if as_of else {}
        if is_read_optimized:
            read_options["hoodie.datasource.query.type"] = "read_optimized"
        return self.peer.read(self.location, read_options)

    def upserts(self) -> None:
        self.write(range(12), "first", "insert")
        self.write(range(6, 15), "second")
        self.write([2, 7], "", "delete")
        self.write([7, 20], "third")

    def roll_back(self, instant: str) -> None:
        """By a procedure that knows tables of the catalog alone."""
        name = f"foreign_{self.location.name.replace('-', '_')}"
        self.peer.sql(
            f"create table {name} using hudi location '{self.location}'",
            f"call rollback_to_instant(table => '{name}', instant_time => '{instant}')",
            f"drop table {name}",
        )
        self.writes -= 1

    def forget(self, instant: str) -> None:
        """As if the writer had died before it completed the instant."""
        for file in (self.location / ".hoodie").rglob(f"*{instant}*commit*"):
            if not file.name.endswith(("requested", "inflight", ".crc")):
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
                file.unlink()

    def newest(self) -> str:
        directory = self.location / ".hoodie" / "timeline"
        where = directory if directory.is_dir() else self.location / ".hoodie"
        return max(p.name[:17] for p in where.iterdir() if p.name.endswith("commit"))


def options(
    *,
    table_type: str = "MERGE_ON_READ",
    version: int = 9,
    keygen: str = "SimpleKeyGenerator",
    key: str = "id",
    partition: str = "place",
    ordering: str = "ts",
    more: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    return {
        "hoodie.table.name": "foreign",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.recordkey.field": key,
        "hoodie.datasource.write.partitionpath.field": partition,
        "hoodie.datasource.write.keygenerator.class": _KEYGEN + keygen,
        "hoodie.datasource.write.precombine.field": ordering,
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.upsert.shuffle.parallelism": "2",
        "hoodie.insert.shuffle.parallelism": "2",
        "hoodie.bulkinsert.shuffle.parallelism": "2",
        "hoodie.delete.shuffle.parallelism": "2",
        **more,
    }


Story = Callable[[ForeignTable], None]


def upserted(table: ForeignTable) -> None:
    table.upserts()


def out_of_order(table: ForeignTable) -> None:
    """The later write has the smaller ordering values."""
    table.write(range(12), "newer", "insert", clock=100)
    table.write(range(6), "older", clock=50)
    table.write(range(3), "newest", clock=200)
    table.write(range(2), "oldest", clock=1)


def archived(table: ForeignTable) -> None:
    for number in range(9):
        table.write(range(number, number + 5), f"write {number}", more=_FULL_ARCHIVE)


def archived_overwrites(table: ForeignTable) -> None:
    for number in range(8):
        operation = "insert_overwrite" if number % 3 == 2 else "upsert"
        table.write(range(number, number + 5), f"write {number}", operation, more=_FULL_ARCHIVE)


def overwritten(table: ForeignTable) -> None:
    table.upserts()
    table.write([1, 4, 21], "over", "insert_overwrite")
    table.write([4, 30], "after")
    deleted = {"hoodie.datasource.write.partitions.to.delete": "Rome"}
    table.write([0], "", "delete_partition", more=deleted)
    table.write([1, 5], "back")


def overwritten_whole(table: ForeignTable) -> None:
    table.upserts()
    table.write([1, 4, 21], "all that is left", "insert_overwrite_table")


def compacted(table: ForeignTable) -> None:
    table.upserts()
    settings = "options => 'hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false'"
    table.call("run_compaction", "op => 'schedule'", settings)
    table.call("run_compaction", "op => 'run'", settings)
    table.write([1, 7, 30], "later")


def compaction_pending(table: ForeignTable) -> None:
    """Hudi's next writer carried it out and died before it completed it."""
    table.upserts()
    settings = "options => 'hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false'"
    table.call("run_compaction", "op => 'schedule'", settings)
    table.write([1, 7, 30], "later")
    table.write([4], "", "delete")
    [plan] = (table.location / ".hoodie").rglob("*.compaction.requested")
    table.forget(plan.name.partition(".")[0])


def clustered(table: ForeignTable) -> None:
    table.upserts()
    table.call("run_clustering", "order => 'n'", "options => 'hoodie.metadata.enable=false'")
    table.write([1, 7, 30], "later")


def clustering_pending(table: ForeignTable) -> None:
    table.upserts()
    table.call("run_clustering", "op => 'schedule'", "options => 'hoodie.metadata.enable=false'")
    table.write([31, 32], "later", "insert")


def crashed(table: ForeignTable) -> None:
    """The next writer rolls it back: in version 6 by a rollback block in the log that stays."""
    table.upserts()
    table.write([1, 9, 40], "gone")
    table.forget(table.newest())
    table.writes -= 1
    table.write([3, 9], "after", more={"hoodie.rollback.using.markers": "false"})


def rolled_back(table: ForeignTable) -> None:
    table.upserts()
    table.write([1, 9, 40], "gone")
    table.roll_back(table.newest())
    table.write([3, 9], "after")


@dataclass(frozen=True, slots=True)
class Kind:
    story: Story
    options: Mapping[str, str]
    pending: tuple[str, ...] = ()
    is_read_by_hudi: bool = True

    def make(self, location: Path, peer: HudiPeer) -> ForeignTable:
        table = ForeignTable(location, peer, dict(self.options), self.pending)
        self.story(table)
        if not self.is_read_by_hudi:
            beside = location.with_name(f"{location.name}-twin")
            table.twin = Kind(self.story, options()).make(beside, peer)
        return table


_COW = "COPY_ON_WRITE"
_TIMESTAMPS = {
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    "hoodie.keygen.timebased.timezone": "UTC",
}
_DAYS = {**_TIMESTAMPS, "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd"}
_NO_META = {"hoodie.populate.meta.fields": "false"}
_HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
_PARQUET_LOG = {"hoodie.logfile.data.block.format": "parquet"}
_METADATA_TABLE = {"hoodie.metadata.enable": "true"}
_LATEST = {
    "hoodie.datasource.write.payload.class": (
        "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
    )
}
_COMPLEX = "ComplexKeyGenerator"


def _mor(version: int, story: Story, more: Mapping[str, str] = MappingProxyType({})) -> Kind:
    return Kind(story, options(version=version, more=more))


def _cow(version: int, story: Story, more: Mapping[str, str] = MappingProxyType({})) -> Kind:
    return Kind(story, options(table_type=_COW, version=version, more=more))


KINDS = {
    "v6-mor-avro-log": _mor(6, upserted),
    "v6-mor-parquet-log": _mor(6, upserted, _PARQUET_LOG),
    "v6-mor-out-of-order": _mor(6, out_of_order),
    "v6-mor-commit-time": _mor(6, out_of_order, _LATEST),
    "v6-mor-archived": _mor(6, archived),
    "v6-cow-archived-overwrites": _cow(6, archived_overwrites),
    "v6-mor-compaction-pending": Kind(compaction_pending, options(version=6), ("compaction",)),
    "v6-mor-compacted": _mor(6, compacted),
    "v6-mor-crashed": _mor(6, crashed),
    "v6-cow-overwritten": _cow(6, overwritten, _HIVE),
    "v6-cow-clustered": _cow(6, clustered),
    "v6-mor-clustering-pending": Kind(clustering_pending, options(version=6), ("replacecommit",)),
    "v8-mor-avro-log": _mor(8, upserted),
    "v8-mor-commit-time": _mor(8, out_of_order, _LATEST),
    "v8-cow-archived": _cow(8, archived),
    "v8-mor-compaction-pending": Kind(compaction_pending, options(version=8), ("compaction",)),
    "v9-mor-avro-log": _mor(9, upserted),
    "v9-mor-commit-time": _mor(9, out_of_order, _LATEST),
    "v9-mor-archived": _mor(9, archived),
    "v9-mor-compacted": _mor(9, compacted),
    "v9-mor-crashed": _mor(9, crashed),
    "v9-mor-rolled-back": _mor(9, rolled_back),
    "v9-mor-clustering-pending": Kind(clustering_pending, options(), ("clustering",)),
    "v9-cow-overwritten": _cow(9, overwritten, _HIVE),
    "v9-mor-overwritten-whole": _mor(9, overwritten_whole),
    "v9-mor-no-ordering": Kind(upserted, options(ordering="")),
    "v9-mor-metadata-table": _mor(9, upserted, _METADATA_TABLE),
    "v9-cow-timestamp-keys": Kind(
        upserted,
        options(
            table_type=_COW,
            keygen="TimestampBasedKeyGenerator",
            partition="ts",
            more=_TIMESTAMPS,
        ),
    ),
    # Hudi on Spark takes the path's day for the number that it was made of, and fails; hudi-rs does
    # not know the field `place:SIMPLE`.
    "v9-mor-custom-keys": Kind(
        upserted,
        options(keygen="CustomKeyGenerator", partition="place:SIMPLE,ts:TIMESTAMP", more=_DAYS),
        is_read_by_hudi=False,
    ),
    "v9-cow-complex-keys": Kind(
        upserted,
        options(table_type=_COW, partition="place,note", more=_HIVE, keygen=_COMPLEX, key="id,n"),
    ),
    "v9-cow-no-meta": _cow(9, upserted, _NO_META),
    "v9-mor-no-meta": _mor(9, upserted, _NO_META),
    "v9-mor-no-meta-complex": Kind(upserted, options(more=_NO_META, keygen=_COMPLEX, key="id,n")),
}
