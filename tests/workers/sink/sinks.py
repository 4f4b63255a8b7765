"""A sink's table, coordinator and participants, as tests tell their stories with: real storage, no
broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.support.scenario_table import schema_of
from workers.lakehouse import open_table
from workers.options.table_keys import TableType
from workers.ports import system_ports
from workers.schema.table_schema import TableSchema
from workers.sink.batch import BadRecord, DecodedBatch, Source, Tombstone
from workers.sink.config import SinkConfig, sink_config
from workers.sink.context import load_participant_context, sink_write_options
from workers.sink.coordinator_events import CommitResult, Committed
from workers.sink.dead_letters import list_dead_letter_files, read_dead_letters
from workers.sink.epoch import acquire_epoch
from workers.sink.ledger import SinkLedger, SinkTransaction
from workers.sink.messages import Outcome, Report
from workers.sink.sink_commits import ID_KEY
from workers.sink.tables import create_append_table
from workers.sink.writer import SinkWriter, WriterResult
from workers.storage.local import LocalStorage
from workers.table import creation
from workers.table.definition import TableDefinition
from workers.table.table import Table
from workers.timeline.metadata import read_commit_metadata
from workers.write.context import WriteContext

Row = dict[str, Any]
TOPIC = "orders"
TYPES: dict[str, pa.DataType] = {"id": pa.int64(), "city": pa.string()}
PAYLOAD = pa.schema(TYPES)
IDS = schema_of(id=pa.int64(), city=pa.string(), ts=pa.int64())
AT_MS = 1_700_000_000_000


def config_of(**options: str) -> SinkConfig:
    """Options by their last words: `mode="upsert"` is hoodie.sink.mode."""
    given = {"hoodie.kafka.topic": TOPIC}
    for name, value in options.items():
        prefix = "hoodie.kafka" if name in _KAFKA else "hoodie.sink"
        given[f"{prefix}.{name.replace('_', '.')}"] = value
    return sink_config(given)


_KAFKA = ("start_offsets", "on_expired", "commit_empty", "buffer_max_bytes", "topic")


def append_table(
    location: Path, schema: pa.Schema = PAYLOAD, partitions: int = 2, **more: Any
) -> Table:
    return create_append_table(
        LocalStorage(location),
        system_ports(),
        name="orders",
        schema=schema,
        topic=TOPIC,
        partitions=partitions,
        **more,
    )


def keyed_table(
    location: Path,
    schema: pa.Schema | TableSchema,
    *,
    record_key: Sequence[str] = ("id",),
    partition_by: Sequence[str] = (),
    ordering: Sequence[str] = (),
    table_type: str = "MERGE_ON_READ",
    options: Mapping[str, str] | None = None,
) -> Table:
    if isinstance(schema, pa.Schema):
        schema = TableSchema.from_arrow(schema, table_name="orders")
    definition = TableDefinition(
        name="orders",
        table_type=TableType(table_type),
        record_key=tuple(record_key),
        partition_by=tuple(partition_by),
        ordering=tuple(ordering),
        schema=schema,
    )
    given = dict(options or {})
    if "hoodie.index.type" not in given:
        given.setdefault("hoodie.bucket.index.num.buckets", "2")
    return creation.create(LocalStorage(location), definition, given, system_ports())


def batch(
    rows: Sequence[Row],
    first: int = 0,
    *,
    schema: pa.Schema = PAYLOAD,
    offsets: Sequence[int] | None = None,
    bad: Iterable[BadRecord] = (),
    tombstones: Sequence[Tombstone] = (),
    left_out: int = 0,
) -> DecodedBatch:
    at = np.array(offsets if offsets is not None else range(first, first + len(rows)), np.int64)
    return DecodedBatch(
        pa.Table.from_pylist(list(rows), schema),
        at,
        AT_MS + at,
        bad=tuple(bad),
        tombstones=tombstones,
        left_out=left_out,
    )


@dataclass
class Participant:
    """Writes into one transaction, from a table handle of its own."""

    writer: SinkWriter
    start: int

    def written(self, *batches: DecodedBatch) -> WriterResult:
        for batch in batches:
            self.writer.add(batch, self.start)
        return self.writer.close()


def context_of(
    table: Table, config: SinkConfig, instant: str, schema: str, read_at: str
) -> WriteContext:
    """As a participant in another process makes it."""
    own = open_table(table.storage.location).table
    return load_participant_context(
        own,
        config,
        sink_write_options(config, table.storage.location),
        instant=instant,
        schema=TableSchema.from_avro_json(schema),
        read_at=read_at,
    )


def writer_of(
    table: Table,
    config: SinkConfig,
    context: WriteContext,
    partition: int = 0,
    participant: str = "p-1",
) -> SinkWriter:
    return SinkWriter(context, config, source_of(config, partition, participant), table.storage)


def source_of(config: SinkConfig, partition: int = 0, participant: str = "p-1") -> Source:
    return Source(config.topic, partition, participant, Facts.topic_id, Facts.cluster_id)


def rows_of(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    """What a reader who comes now sees, sorted."""
    rows: pa.Table = open_table(table.storage.location).read()
    names = columns or tuple(rows.column_names)
    return sorted((tuple(row[name] for name in names) for row in rows.to_pylist()), key=repr)


def extra_of(table: Table, instant: str = "") -> dict[str, str]:
    """Of this commit, else of the newest."""
    timeline = open_table(table.storage.location).table.timeline()
    writes = timeline.list_completed_writes()
    commit = next((one for one in writes if one.requested_at == instant), writes[-1])
    content = table.storage.read(table.layout.path(commit))
    return read_commit_metadata(content).extra_metadata


@dataclass
class Facts:
    """What a broker says of the topic."""

    watermarks: dict[int, tuple[int, int]] = field(default_factory=lambda: {0: (0, 0), 1: (0, 0)})
    topic_id: str = "topic-1"
    cluster_id: str = "cluster-1"

    def produce(self, partition: int, count: int) -> None:
        low, high = self.watermarks.get(partition, (0, 0))
        self.watermarks[partition] = (low, high + count)


def coordinator(
    table: Table, config: SinkConfig, owner: str = "coordinator", **options: str
) -> SinkLedger:
    """Of a new epoch, with a table handle of its own."""
    own = open_table(table.storage.location).table
    epoch = acquire_epoch(own.storage, config.sink_id, own.ports, owner=owner)
    return SinkLedger(own, config, epoch, sink_write_options(config, own.storage.location, options))


def participant(
    begun: SinkTransaction, table: Table, config: SinkConfig, partition: int = 0, name: str = "p-1"
) -> Participant:
    context = context_of(table, config, begun.instant, begun.schema, begun.read_at)
    source = Source(
        config.topic, partition, f"{name}-{partition}", begun.topic_id, begun.cluster_id
    )
    writer = SinkWriter(context, config, source, table.storage)
    return Participant(writer, begun.offsets[partition])


def report_of(
    begun: SinkTransaction,
    partition: int,
    end: int,
    written: WriterResult | None = None,
    **facts: Any,
) -> Report:
    if written is not None:
        facts |= {
            "records": written.records,
            "bad_records": written.bad_records,
            "left_out": written.left_out,
            "statuses": tuple(one.to_json() for one in written.statuses),
            "letters": tuple(one.to_json() for one in written.letters),
            "max_timestamp_ms": written.max_timestamp_ms or 0,
        }
    return Report(
        epoch=1,
        instant=begun.instant,
        sender=f"p-{partition}",
        partition=partition,
        outcome=Outcome.PREPARED,
        start=begun.offsets[partition],
        end=end,
        **facts,
    )


def reports(
    begun: SinkTransaction, table: Table, config: SinkConfig, facts: Facts, name: str = "p"
) -> list[Report]:
    """Every participant reads to the end of its partition."""
    all_reports = []
    for partition, start in begun.offsets.items():
        end = facts.watermarks[partition][1]
        member = participant(begun, table, config, partition, name)
        written = member.written(records(partition, start, end))
        all_reports.append(report_of(begun, partition, end, written))
    return all_reports


def records(partition: int, start: int, end: int) -> DecodedBatch:
    rows = [{"id": offset, "city": f"{partition}/{offset}"} for offset in range(start, end)]
    return batch(rows, start)


def ingest(ledger: SinkLedger, table: Table, facts: Facts) -> CommitResult | None:
    """One whole transaction up to the ends of the topic."""
    begun = ledger.begin(facts)
    if begun is None:
        return None
    return ledger.commit(begun, reports(begun, table, ledger.config, facts))


def coordinates(table: Table) -> list[tuple[Any, ...]]:
    return rows_of(table, "_kafka_partition", "_kafka_offset")


def all_below(facts: Facts, first: int = 0) -> list[tuple[int, int]]:
    """What a table holds that has each record once."""
    return sorted(
        (
            (one, offset)
            for one, (_, high) in facts.watermarks.items()
            for offset in range(first, high)
        ),
        key=repr,
    )


ENDS = Facts({0: (0, 1 << 40)})


def write(
    table: Table,
    config: SinkConfig,
    *batches: DecodedBatch,
    end: int = 100,
    topic_id: str = Facts.topic_id,
) -> None:
    """One committed transaction of partition 0."""
    ledger = coordinator(table, config)
    begun = ledger.begin(replace(ENDS, topic_id=topic_id))
    assert begun is not None
    written = participant(begun, table, config).written(*batches)
    assert isinstance(ledger.commit(begun, [report_of(begun, 0, end, written)]), Committed)


def letters_of(table: Table, config: SinkConfig) -> list[dict[str, Any]]:
    names = list_dead_letter_files(table, sink_key=ID_KEY, sink_id=config.sink_id)
    path = f"{table.storage.location}-dead-letters"
    return read_dead_letters(path, names).to_pylist() if names else []
