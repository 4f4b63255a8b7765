"""A participant as it runs, from what a consumer gives to a commit; only the broker is a script."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np

from tests.workers.sink.sinks import Facts, coordinator
from workers.errors import InvalidInput
from workers.options.sink_keys import SinkMode
from workers.ports import system_ports
from workers.schema.table_schema import TableSchema
from workers.sink.batch import RawBatch
from workers.sink.config import SinkConfig
from workers.sink.context import SinkContexts, sink_write_options
from workers.sink.coordinator_events import Committed
from workers.sink.kafka.consumer import PartitionConsumer
from workers.sink.ledger import SinkTransaction
from workers.sink.messages import (
    AckCommit,
    EndCommit,
    Message,
    Outcome,
    ParticipantName,
    Ready,
    Report,
    StartCommit,
)
from workers.sink.participant import ParticipantState
from workers.sink.runtime.mailbox import Outbox
from workers.sink.runtime.participant_loop import ParticipantLoop, WorkerContext
from workers.table.table import Table

ME, RUN = "0@here:1:1:a", "run"
TRANSACTIONS_MAX = 30
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Sent:
    """A record as somebody sent it."""

    value: bytes | None
    own_key: bytes | None = None
    at_ms: int = 1_700_000_000_000
    own_headers: Callable[[], Any] = lambda: None

    def key(self) -> bytes | None:
        return self.own_key

    def headers(self) -> Any:
        return self.own_headers()


@dataclass
class Script:
    """A consumer of a partition that has these records."""

    records: Sequence[Sent]
    wants_keys: bool
    batch_rows: int
    seeks: int = 0
    at: int = 0
    is_open: bool = False

    def seek(self, offset: int) -> None:
        self.at, self.seeks = offset, self.seeks + 1

    def pause(self) -> None:
        self.is_open = False

    def resume(self) -> None:
        self.is_open = True

    def poll(self, records_max: int, timeout_s: float) -> RawBatch | None:
        records = self.records[self.at : self.at + min(records_max, self.batch_rows)]
        if not self.is_open or not records:
            time.sleep(min(timeout_s, 0.005))
            return None
        first, self.at = self.at, self.at + len(records)
        return RawBatch(
            values=[one.value for one in records],
            keys=[one.own_key for one in records] if self.wants_keys else (),
            offsets=np.arange(first, self.at, dtype=np.int64),
            timestamps_ms=np.array([one.at_ms for one in records], np.int64),
            next_offset=self.at,
            seeks=self.seeks,
            records=records,
        )

    def hint(self, offset: int) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass
class Carried:
    """What became of all records: one committed report."""

    report: Report
    failures: list[str] = field(default_factory=list)


def make_loop(table: Table, config: SinkConfig, script: Script, outbox: Outbox) -> ParticipantLoop:
    around = WorkerContext(
        config=config,
        storage=table.storage,
        contexts=SinkContexts(table, config, sink_write_options(config, table.storage.location)),
        outbox=outbox,
        clock=system_ports().clock,
        consume=lambda _partition: cast("PartitionConsumer", script),
    )
    return ParticipantLoop(around, ParticipantState(0, ME, since_ms=1, run_id=RUN))


def start_message(epoch: int, begun: SinkTransaction, refused: tuple[str, ...] = ()) -> StartCommit:
    return StartCommit(
        epoch,
        begun.instant,
        "c",
        begun.offsets,
        {0: ME},
        begun.schema,
        begun.read_at,
        refused,
        begun.topic_id,
        begun.cluster_id,
    )


def carry(
    table: Table, config: SinkConfig, records: Sequence[Sent], *, batch_rows: int = 64
) -> Carried:
    """Transactions until one with all records is committed."""
    outbox = Outbox()
    script = Script(records, config.mode is SinkMode.UPSERT, batch_rows)
    loop = make_loop(table, config, script, outbox)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            loop.run()
        except BaseException as error:  # noqa: BLE001 # The test tells it.
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        return _carried(table, config, loop, outbox, errors, len(records))
    finally:
        loop.leave("the test is over")
        thread.join(_PATIENCE_S)


def _carried(
    table: Table,
    config: SinkConfig,
    loop: ParticipantLoop,
    outbox: Outbox,
    errors: list[BaseException],
    end: int,
) -> Carried:
    failures: list[str] = []
    refused: tuple[str, ...] = ()
    ledger = coordinator(table, config)
    for _ in range(TRANSACTIONS_MAX):
        begun = ledger.begin(Facts({0: (0, end)}))
        assert begun is not None
        epoch, instant = ledger.epoch.number, begun.instant
        loop.inbox.put(start_message(epoch, begun, refused))
        through = partial(_is_through, instant=instant, end=end)
        heard = _heard(outbox, errors, through, loop)
        if isinstance(heard, Ready):
            loop.inbox.put(EndCommit(epoch, instant, "c"))
            heard = _heard(outbox, errors, lambda message: isinstance(message, Report), loop)
        assert isinstance(heard, Report)
        if heard.outcome is Outcome.PREPARED:
            result = ledger.commit(begun, [heard])
            assert isinstance(result, Committed), result
            loop.inbox.put(AckCommit(epoch, instant, "c", result.offsets, RUN))
            return Carried(heard, failures)
        ledger.abort(begun, heard.reason)
        failures.append(f"{heard.outcome}: {heard.reason or heard.new_fields}")
        if heard.outcome is Outcome.NEEDS_SCHEMA:
            try:
                ledger.evolve(heard.new_fields)
            except InvalidInput:
                names = TableSchema.from_avro_json(heard.new_fields).field_names
                refused = (*refused, *names)
        else:
            break
    raise AssertionError(f"the records were not committed: {failures}")


def _is_through(message: Message, *, instant: str, end: int) -> bool:
    """It has read all, or reported before its time."""
    if isinstance(message, Report):
        return message.instant == instant
    return isinstance(message, Ready) and message.instant == instant and message.offset >= end


def _heard(
    outbox: Outbox,
    errors: list[BaseException],
    wanted: Callable[[Message], bool],
    loop: ParticipantLoop,
) -> Message:
    deadline_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline_s:
        for message in outbox.drain():
            if wanted(message):
                return message
        if errors:
            raise errors[0]
        state = loop._state  # A Ready comes every three seconds only.
        instant = state.joined.instant if state.joined else ""
        shown = Ready(0, instant, ME, 0, state.name, state.offset, 1)
        if state.name is ParticipantName.OPEN and wanted(shown):
            return shown
        time.sleep(0.002)
    raise AssertionError("nothing was heard of the participant")
