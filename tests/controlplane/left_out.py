"""A commit of a sink that left two records out, and the replays of such letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.mirror.storage import storage_of
from controlplane.mirror.sync import sync_table
from controlplane.tables.models import Table
from tests.support.sinks import NOW_MS, SINK, TOPIC, commit_offsets, stuck_state
from workers.sink.batch import BadRecord, Source
from workers.sink.dead_letters import dead_letters_to_arrow
from workers.sink.replays import DeadLetterId, Replay, claim_letters, store_end
from workers.sink.state_file import put_state
from workers.write.dead_letters import DeadLetters
from workers.write.status import TaskIds

BAD = (
    BadRecord(7, b"k", b'{"id": ' + b"x" * 9_000, "not JSON", NOW_MS, (("trace", b"7f"),)),
    BadRecord(9, None, b"\xff\x00", "not UTF-8"),
)


def leave_out(
    row: Table,
    letters: tuple[BadRecord, ...] | None = None,
    written_row: Mapping[str, Any] | None = None,
) -> str:
    """The commit's instant; one more file that it names is gone. `letters` are the records that it
    leaves out (default: `BAD`), and `written_row` is the row that it writes.
    """
    directory = f"{row.location}-dead-letters"
    written = DeadLetters(directory, "20261121120000000").write(
        dead_letters_to_arrow(Source(TOPIC, 0), letters or BAD), TaskIds()
    )
    extra = {"hoodie.sink.dlq.count": "2", "sluice.dead_letter.files": f"{written.name},gone.x"}
    instant = commit_offsets(row.location, "0=10", row=written_row, extra=extra)
    put_state(storage_of(row), stuck_state())
    sync_table(row)
    return instant


def sent_again(row: Table, *offsets: int, number: int = 1, by: str = "bob") -> None:
    storage = storage_of(row)
    letters = tuple(DeadLetterId(TOPIC, 0, offset) for offset in offsets)
    replay = Replay(number, f"token-{number}", by, NOW_MS, letters, ((0, 10),))
    assert claim_letters(storage, SINK, replay)
    store_end(storage, SINK, replay, is_sent=True)
