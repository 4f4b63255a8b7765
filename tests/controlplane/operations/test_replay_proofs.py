"""A replay into an append-only table is proved by the keys of its letters: where a record came from
is its key there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.contrib.auth.models import User

from controlplane.mirror.storage import storage_of
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_request_replay, do_start_sink
from controlplane.operations.models import Operation
from controlplane.operations.queries import operation_checks
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from tests.controlplane.sink_jobs import OPTIONS
from tests.support.sinks import SINK, TOPIC, commit_offsets
from workers.ports import system_ports
from workers.sink import tables as sink_tables
from workers.sink.batch import BadRecord, Source
from workers.sink.dead_letters import dead_letters_to_arrow
from workers.sink.replays import DeadLetterId, Replay, ReplayedOffsets, claim_letters, store_end
from workers.sink.tables import (
    CLUSTER,
    COORDINATES,
    OFFSET,
    PARTITION,
    TOPIC_ID,
    create_append_table,
)
from workers.storage.opener import open_storage
from workers.write.dead_letters import DeadLetters
from workers.write.status import TaskIds


def proved(operation: Operation) -> dict[str, bool | None]:
    return {one.name: one.is_proved for one in operation_checks(operation.pk)}


APPENDED = pa.schema([*COORDINATES, pa.field("city", pa.string())])


@pytest.fixture
def appended(root: Path, admin: User) -> Table:
    location = root / "events"
    payload = pa.schema([pa.field("city", pa.string())])
    create_append_table(
        open_storage(str(location)),
        system_ports(),
        name="events",
        schema=payload,
        topic=TOPIC,
        partitions=1,
    )
    return do_register_table(location=str(location), slug="events", name="events", by=admin)


def record_at(offset: int) -> dict[str, Any]:
    source = {CLUSTER: "c", sink_tables.TOPIC: TOPIC, TOPIC_ID: "made-once", PARTITION: 0}
    return dict.fromkeys(COORDINATES.names) | source | {OFFSET: offset, "city": "Oslo"}


def bring(table: Table, offset: int, **letters: str) -> str:
    """A commit of the sink that has read up to this record, and taken it in."""
    return commit_offsets(
        table.location, f"0={offset + 1}", row=record_at(offset), schema=APPENDED, extra=letters
    )


def test_replay_into_an_append_only_table_is_proved_by_the_keys_of_its_letters(
    appended: Table, admin: User
) -> None:
    do_start_sink(appended, OPTIONS, by=admin)
    directory = Path(f"{appended.location}-dead-letters")
    directory.mkdir()
    left_out = kept_letters(directory, 7, 9)
    instant = bring(appended, 10, **left_out)
    sync_table(appended)
    operation = do_request_replay(appended, SINK, by=admin, instant=instant, reason="mended")
    letters = (DeadLetterId(TOPIC, 0, 7), DeadLetterId(TOPIC, 0, 9))
    sent = Replay(1, str(operation.pk), "ada", 1, letters, ((0, 11),))
    storage = storage_of(appended)
    assert claim_letters(storage, SINK, sent)
    landed = ReplayedOffsets("made-once", "c", ((0, 7, 11), (0, 9, 12)))
    store_end(storage, SINK, sent, is_sent=True, until=((0, 14),), landed=landed)
    assert proved(operation) == {"letters": True, "read": None, "rows": None}

    taken_in = bring(appended, 11)
    bring(appended, 13)
    assert proved(operation) == {"letters": True, "read": True, "rows": False}
    [rows] = [one for one in operation_checks(operation.pk) if one.name == "rows"]
    assert "letter 0:9, sent again to 0:12, is no row under its key" in rows.words

    bring(appended, 14, **kept_letters(directory, 12))
    assert proved(operation) == {"letters": True, "read": True, "rows": True}

    next(Path(appended.location).glob(f".*_{taken_in}.log.*")).unlink()
    assert not proved(operation)["rows"]


def kept_letters(directory: Path, *offsets: int) -> dict[str, str]:
    """What a commit says of the file with these letters."""
    bad = [BadRecord(offset, None, b"{", "not JSON") for offset in offsets]
    written = DeadLetters(str(directory), f"2026112112000000{len(offsets)}").write(
        dead_letters_to_arrow(Source(TOPIC, 0, topic_id="made-once"), bad), TaskIds()
    )
    return {"hoodie.sink.dlq.count": str(len(offsets)), "sluice.dead_letter.files": written.name}
