"""Each effect exactly once, and nothing left behind: said by storage alone, beside the account of
those who asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from controlplane.audit.models import AuditEvent
from controlplane.operations.models import Operation
from tests.controlplane.kills.asking import WRITE, Account, Asked
from tests.controlplane.kills.storage_facts import commits_of
from tests.support.invariants import assert_table_is_sound, leftovers, orphan_files
from tests.support.referee import assert_referee_agrees
from workers import open_table
from workers.concurrency.heartbeat import read_heartbeats
from workers.files.meta_columns import COMMIT_TIME
from workers.read.snapshot import read_snapshot
from workers.storage.local import TEMPORARY_PREFIX
from workers.storage.temp_files import find_stale_temp_files as abandoned
from workers.timeline.instant import Action

_DAY_MS = 24 * 3600 * 1000
_SWEPT_WITHIN_S = 60.0
COMMITS_ONCE = frozenset({WRITE, "clean", "clustering", "compaction", "delete"})
"""Whose own commit carries the operation's id, unless there was nothing to do."""


def check_table(account: Account, requests: Iterable[Asked]) -> None:
    """Raises AssertionError."""
    table = open_table(account.location)
    rows = read_snapshot(table.table, with_meta_columns=True)
    keys = [str(key) for key in rows.column("id").to_pylist()]
    expected = account.expected_keys()
    lost, extra = sorted(expected - set(keys)), sorted(set(keys) - expected)
    assert (lost, extra) == ([], []), f"{account.row.slug}: lost {lost}, came back {extra}"
    assert len(keys) == len(expected), f"{account.row.slug}: a key is there twice"
    written_by = set(zip(rows["op"].to_pylist(), rows[COMMIT_TIME].to_pylist(), strict=True))
    assert written_by == {(name, account.instants[name]) for name in account.alive}, account.row
    commits = commits_of(table.table)
    for request in requests:
        _check_commits(account, request, commits.pop(request.operation_id, []))
    assert not commits, f"{account.row.slug}: commits of unknown operations: {commits}"
    savepoints = {
        one.requested_at
        for one in table.table.timeline().iterate_completed()
        if one.action is Action.SAVEPOINT
    }
    assert savepoints == account.savepoints, account.row.slug
    assert_table_is_sound(account.location)
    assert_referee_agrees(account.location)


def _check_commits(account: Account, request: Asked, commits: list[str]) -> None:
    where = (account.row.slug, request, commits)
    if request.kind != WRITE:
        most = 1 if request.kind in COMMITS_ONCE and request.seen_final == "succeeded" else 0
        assert len(commits) <= most, f"an effect of what had none, or twice: {where}"
        return
    name = request.names[0]
    is_taken_back = name in account.taken_back
    expected = (
        [] if is_taken_back or request.seen_final != "succeeded" else [account.instants[name]]
    )
    assert commits == expected, f"not exactly once: {where}"


def await_swept(account: Account, tick: Callable[[], None]) -> None:
    """Until nothing of the dead is left but what the reconciler would take in an hour."""
    deadline_s = time.monotonic() + _SWEPT_WITHIN_S
    while left := _left_behind(account.location):
        assert time.monotonic() < deadline_s, f"{account.row.slug} is not swept: {left}"
        tick()
        time.sleep(0.2)


def check_counts(scraped: str, count: int) -> None:
    """The figures of the node count each operation once."""
    name = "sluice_operation_duration_seconds_count"
    lines = [line for line in scraped.splitlines() if line.startswith(name)]
    counted = sum(float(line.rpartition(" ")[2]) for line in lines)
    assert counted == count, lines


def _left_behind(location: Path) -> list[str]:
    table = open_table(location).table
    left = [f"pending: {one}" for one in table.timeline().pending()]
    left += [f"heart beats: {beat.instant}" for beat in read_heartbeats(table.storage)]
    left += leftovers(table) + orphan_files(table)
    later_ms = table.ports.clock.now_ms() + _DAY_MS
    taken = {info.path for info in abandoned(table.storage, later_ms)}
    temporary = [
        path.relative_to(location).as_posix() for path in location.rglob(f"{TEMPORARY_PREFIX}*")
    ]
    return left + [path for path in temporary if path not in taken]


def check_letters(account: Account, in_topic: Mapping[str, int]) -> None:
    """Those whose replay succeeded are in the topic once, and no other."""
    assert in_topic == dict.fromkeys(account.sent, 1), in_topic


def check_operations(requests: dict[str, Asked], besides: Operation) -> None:
    """Each is there once, in its last state, and the audit has each request once."""
    operations = Operation.objects.exclude(pk=besides.pk)
    assert {str(one.pk) for one in operations} == set(requests)
    requested = AuditEvent.objects.filter(result="requested").count()
    assert requested == len(requests), (requested, len(requests))
    unaccounted = [one for one in operations if requests[str(one.pk)].seen_final != one.state]
    assert not unaccounted, unaccounted
