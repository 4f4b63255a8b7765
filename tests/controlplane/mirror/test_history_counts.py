"""Counts that are kept of a long history are what a full count of its rows gives, whatever happened
to the table; and a window of the timeline says the same with them as without.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple
from random import Random
from typing import Any

import pytest

from controlplane.mirror import archive_facts, history_counts
from controlplane.mirror.density import timeline_density
from controlplane.mirror.history_counts import LEVELS
from controlplane.mirror.models import HistoryCount, InstantRecord, SyncMark
from controlplane.mirror.sync import forget_mirror, sync_table
from controlplane.mirror.timeline_rows import timeline_window
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.controlplane.mirror.test_archive import OSLO, leave, publish
from tests.support.sampling import examples
from workers.clock import format_instant, parse_instant
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback

DAY_MS = 86_400_000
FIRST_MS = 1_767_225_600_000
WIDTHS_MS = (60_000, 3_600_000, 10_800_000, DAY_MS, 3 * DAY_MS)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short histories are counted, too."""
    monkeypatch.setattr(history_counts, "COUNTED_FROM", 2)


def kept(table: Table) -> Counter[tuple[object, ...]]:
    counts: Counter[tuple[object, ...]] = Counter()
    for row in HistoryCount.objects.filter(table=table).values_list(
        "digits", "stretch", "action", "operation_type", "writer_name", "stream", "last_ended",
        "instants",
    ):  # fmt: skip
        counts[row[:-1]] += row[-1]
    return counts


def in_full(table: Table) -> Counter[tuple[object, ...]]:
    counts: Counter[tuple[object, ...]] = Counter()
    ends: dict[tuple[object, ...], str] = {}
    for record in InstantRecord.objects.filter(table=table, is_archived=True):
        for digits, _ in LEVELS:
            kind = (digits, record.requested_at[:digits], record.action, record.operation_type,
                    record.writer_name, record.stream)  # fmt: skip
            counts[kind] += 1
            ends[kind] = max(ends.get(kind, ""), str(record.completed_at))
    return Counter({(*kind, ends[kind]): count for kind, count in counts.items()})


def agrees(table: Table) -> bool:
    assert SyncMark.objects.get(table=table).is_history_counted
    assert kept(table) == in_full(table) != Counter()
    return True


@pytest.mark.usefixtures("counted")
def test_counts_follow_archiving_rollback_a_lost_history_and_a_mirror_made_anew(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(6):
        lake.commit(OSLO)
    sync_table(lake.row)
    assert not HistoryCount.objects.exists()

    leave(lake, publish(lake, 3))
    sync_table(lake.row)
    assert agrees(lake.row)

    wrong = RollbackRequest(lake.commit(OSLO), by="ada", reason="wrong")
    rollback(lake.table, wrong, write_options({}))
    leave(lake, publish(lake, 3))
    sync_table(lake.row)
    assert agrees(lake.row)

    whole = kept(lake.row)
    forget_mirror(lake.row)
    assert not HistoryCount.objects.exists()
    monkeypatch.setattr(archive_facts, "CONTENTS_PER_PASS_MAX", 2)
    while sync_table(lake.row) != frozenset():
        assert agrees(lake.row)
    assert kept(lake.row) == whole

    for file in lake.table.storage.list_files(".hoodie/timeline/history"):
        lake.table.storage.delete(file.path)
    sync_table(lake.row)
    assert not HistoryCount.objects.exists()
    assert not SyncMark.objects.get().is_history_counted


@pytest.mark.usefixtures("counted")
def test_a_quiet_table_of_an_older_sluice_is_counted_by_its_next_look_and_goes_whole(
    lake: Lake,
) -> None:
    for _ in range(4):
        lake.commit(OSLO)
    leave(lake, publish(lake, 3))
    sync_table(lake.row)
    HistoryCount.objects.all().delete()
    SyncMark.objects.update(is_history_counted=False)

    sync_table(lake.row)
    assert agrees(lake.row)
    assert sync_table(lake.row) == frozenset()

    lake.row.delete()
    assert not HistoryCount.objects.exists()


def a_long_history(random: Random) -> Table:
    table = Table.objects.create(slug="long", name="long", location="/lake/long")
    SyncMark.objects.create(table=table)
    at_ms, records = FIRST_MS, []
    for number in range(900):
        at_ms += random.randrange(1, 2 * 3_600_000)
        action = random.choice(("deltacommit", "commit", "clean"))
        is_archived = number < 850
        is_done = is_archived or random.random() < 0.8
        took_ms = random.choice((400, 400, 400, 50 * 3_600_000))
        records.append(
            InstantRecord(
                table=table, requested_at=format_instant(at_ms), action=action,
                state="completed" if is_done else "inflight",
                completed_at=format_instant(at_ms + took_ms) if is_done else None,
                writer_name=random.choice(("", "a", "b")), stream=random.choice(("", "clicks")),
                operation_type="COMPACT" if action == "commit" else "", is_archived=is_archived,
            )
        )  # fmt: skip
    InstantRecord.objects.bulk_create(records)
    return table


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.usefixtures("counted")
def test_a_window_counts_the_same_and_lists_the_same_with_kept_counts_as_without() -> None:
    random = Random(20)
    table = a_long_history(random)
    mark = SyncMark.objects.get()
    first, last = FIRST_MS, parse_instant(table.instants.latest("requested_at").requested_at)
    windows = []
    for _ in range(examples(60)):
        since = random.randrange(first - DAY_MS, last)
        # Edges that lie on an hour or a day exactly, too.
        since -= random.choice((0, since % 3_600_000, since % DAY_MS))
        until = random.randrange(since + 1, last + 2 * DAY_MS)
        window: dict[str, Any] = {"since": format_instant(since), "until": format_instant(until)}
        window |= {"actions": random.choice((None, ["commit"])),
                   "states": random.choice((None, None, ["completed"], ["inflight"]))}  # fmt: skip
        shape: dict[str, Any] = {"by": random.choice(("action", "writer", "stream")),
                 "bin_ms": random.choice(WIDTHS_MS)}  # fmt: skip
        windows.append((window, shape))

    def answers() -> list[object]:
        shown: list[object] = []
        for window, shape in windows:
            density = timeline_density(table, **window, **shape)
            cells = sorted(map(astuple, density.cells))
            shown.append((cells, density.total, timeline_window(table, limit=50, **window).rows))
        return shown

    uncounted = answers()
    mark.sums = {"history": "850:1"}
    history_counts.keep_counts(table, mark, archive_facts.ArchiveFacts())
    mark.save()

    assert agrees(table)
    assert answers() == uncounted
