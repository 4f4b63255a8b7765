"""A participant as it runs: control messages are processed before records."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from tests.workers.sink.sinks import Facts, config_of, coordinator
from tests.workers.sink.whole_participant import Script, Sent, make_loop, start_message
from workers.sink.batch import RawBatch
from workers.sink.messages import EndCommit, Report
from workers.sink.runtime.mailbox import Inbox, Outbox
from workers.table.table import Table

RECORDS = [Sent(b'{"id": 1}')] * 5


@dataclass
class EndingScript(Script):
    """A consumer without records at first; END-COMMIT arrives together with the records."""

    end: EndCommit | None = None
    inbox: Inbox = field(default_factory=Inbox)

    def poll(self, records_max: int, timeout_s: float) -> RawBatch | None:
        if self.end is None:
            return super().poll(records_max, timeout_s)
        self.inbox.put(self.end)
        self.end = None
        return None


def test_records_that_arrive_with_the_end_are_left_to_the_next_transaction(table: Table) -> None:
    config, outbox = config_of(), Outbox()
    ledger = coordinator(table, config)
    begun = ledger.begin(Facts({0: (0, len(RECORDS))}))
    assert begun is not None
    epoch = ledger.epoch.number
    script = EndingScript(RECORDS, False, 64, end=EndCommit(epoch, begun.instant, "c"))
    loop = make_loop(table, config, script, outbox)
    script.inbox = loop.inbox
    loop.inbox.put(start_message(epoch, begun))

    thread = threading.Thread(target=loop.run)
    thread.start()
    reports: list[Report] = []
    while not reports and thread.is_alive():
        reports = [message for message in outbox.drain() if isinstance(message, Report)]
    loop.leave("the test ends")
    thread.join()

    [report] = reports
    assert (report.start, report.end, report.records) == (0, 0, 0)
    assert script.at == 0
    ledger.abort(begun, "the test ends")
