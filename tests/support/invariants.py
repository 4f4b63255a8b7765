"""What holds of every table at every moment, whatever a test did to it (docs/invariants.md)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from workers.clock import InstantTime
from workers.concurrency.heartbeat import read_heartbeats
from workers.errors import HistoryLost
from workers.files.base_file import read_base_file
from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.files.names import parse_base_file, parse_log_file
from workers.files.partition import list_partitions
from workers.index.bloom_filter import HashedKeys
from workers.index.file_keys import read_file_keys
from workers.lakehouse import open_table
from workers.markers.store import pending_marker_instants
from workers.read.history import History
from workers.read.request import EARLIEST
from workers.storage.base import join
from workers.table.schema_history import read_instant
from workers.table.table import Table
from workers.timeline import decisions
from workers.timeline.archive import list_archived_instants
from workers.timeline.clean_metadata import read_clean_metadata
from workers.timeline.decisions import CommitDecision, RollbackDecision
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import WriteStat, read_commit_metadata, read_rollback_targets
from workers.timeline.savepoint_metadata import read_restore_targets


def assert_table_is_sound(location: str | Path) -> None:
    table = open_table(location).table
    _assert_times_are_unique_and_ordered(table)
    _assert_committed_files_stand(table)
    _assert_timeline_follows_decisions(table)
    _assert_no_update_was_lost(table)
    _assert_rollbacks_are_whole(table)
    _assert_windows_deliver_each_commit_once(table)
    _assert_footers_tell_of_all_keys(table)


def _assert_footers_tell_of_all_keys(table: Table) -> None:
    """Under an index with filters no base file lacks one, and none denies a key that it has."""
    if table.config.bloom is None:
        return
    for stat in _committed_stats(table):
        if stat.is_log or table.storage.info(stat.path) is None:
            continue
        keys = read_base_file(table.storage, stat.path, [RECORD_KEY]).column(RECORD_KEY)
        file_keys = read_file_keys(table.storage, stat.path)
        assert file_keys.filter is not None, stat.path
        assert file_keys.might_contain(HashedKeys(keys)).all(), stat.path


def assert_nothing_reported_is_lost(location: str | Path, reported: Iterable[InstantTime]) -> None:
    """TL6: whatever was reported as committed is on the timeline, in its history, or undone."""
    table = open_table(location).table
    known = {one.requested_at for one in table.timeline().iterate_completed()}
    lost = [
        one for one in reported if one not in known and not decisions.is_undone(table.storage, one)
    ]
    if lost:
        archived = list_archived_instants(table.storage, with_content=True, is_partial=True)
        known = {one.instant.requested_at for one in archived}
        known |= {target for one in archived for target in _targets(one.instant, one.metadata)}
    lost = [one for one in lost if one not in known]
    assert not lost, f"reported as committed, and gone: {lost}"


def assert_keys_are_unique(rows: pa.Table, *, in_table: bool = False) -> None:
    """TL9: each key is in one file group of its partition, and there once; or so `in_table`."""
    names = [RECORD_KEY] if in_table else [PARTITION_PATH, RECORD_KEY]
    keys = Counter(zip(*(rows[name].to_pylist() for name in names), strict=True))
    twice = [key for key, count in keys.items() if count > 1]
    assert not twice, f"keys that are there twice: {twice}"


def orphan_files(table: Table) -> list[str]:
    """Data files that no completed commit names and no live writer still works on."""
    owned = {stat.path for stat in _committed_stats(table)} | _archived_files(table)
    now_ms = table.ports.clock.now_ms()
    live = {beat.instant for beat in read_heartbeats(table.storage) if not beat.is_expired(now_ms)}
    live &= {instant.requested_at for instant in table.timeline().pending()}
    return [
        path
        for path, instant in sorted(_data_files(table).items())
        if path not in owned and instant not in live
    ]


def _archived_files(table: Table) -> set[str]:
    writes = list_archived_instants(table.storage, with_content=True, is_partial=True)
    return {
        stat.path
        for one in writes
        if one.instant.action.writes_data and one.metadata
        for stat in read_commit_metadata(one.metadata).stats
    }


def leftovers(table: Table) -> list[str]:
    """Heartbeats, markers and waiting metadata of instants that are not pending any more."""
    pending = {instant.requested_at for instant in table.timeline().pending()}
    paths = []
    for directory in (".hoodie/.heartbeat", ".hoodie/.temp", ".hoodie/.sluice/metadata"):
        for file in table.storage.list_tree(directory):
            owner = file.path.removeprefix(f"{directory}/").split("/")[0].split(".")[0]
            if owner not in pending:
                paths.append(file.path)
    return paths


def _data_files(table: Table) -> dict[str, str]:
    """Path -> request instant in its name."""
    instants = {}
    for partition in list_partitions(table.storage):
        for file in table.storage.list_files(partition):
            if parsed := parse_base_file(file.name) or parse_log_file(file.name):
                instants[file.path] = parsed.instant
    return instants


def _committed_stats(table: Table) -> Iterator[WriteStat]:
    for instant in table.timeline().list_completed_writes():
        yield from read_instant(table, instant).stats


def _cleaned_files(table: Table) -> set[str]:
    """What completed cleans deleted, archived ones included."""
    contents = [
        table.storage.read(table.layout.path(one))
        for one in table.timeline().iterate_completed()
        if one.action is Action.CLEAN
    ]
    contents += [
        one.metadata
        for one in list_archived_instants(table.storage, with_content=True, is_partial=True)
        if one.instant.action is Action.CLEAN and one.metadata
    ]
    return {
        join(partition, name)
        for content in contents
        for partition, names in read_clean_metadata(content).deleted_by_partition.items()
        for name in names
    }


def _assert_times_are_unique_and_ordered(table: Table) -> None:
    """TL1, TL2."""
    instants = table.timeline().instants
    # A savepoint has its commit's request time.
    times = [one.requested_at for one in instants if one.action is not Action.SAVEPOINT]
    times += [one.completed_at for one in instants if one.completed_at]
    assert len(set(times)) == len(times), f"a time was given twice: {sorted(times)}"
    for instant in instants:
        assert instant.completed_at is None or instant.requested_at < instant.completed_at, instant


def _assert_committed_files_stand(table: Table) -> None:
    """TL6, TL10, and the sizes in commit metadata are true."""
    cleaned = _cleaned_files(table)
    for stat in _committed_stats(table):
        if stat.path in cleaned:
            continue
        file = table.storage.info(stat.path)
        assert file is not None, f"a committed file is gone: {stat.path}"
        assert file.size == stat.bytes, (file, stat)


def _assert_timeline_follows_decisions(table: Table) -> None:
    """HB3: what is completed was decided so and not undone; what was decided otherwise is gone."""
    for instant in table.timeline().iterate_completed():
        if instant.action in (Action.ROLLBACK, Action.SAVEPOINT):
            continue
        decision = decisions.read(table.storage, instant.requested_at)
        assert not isinstance(decision, RollbackDecision), f"rolled back, yet completed: {instant}"
        assert not decisions.is_undone(table.storage, instant.requested_at), (
            f"undone, yet completed: {instant}"
        )
        if isinstance(decision, CommitDecision):
            content = table.storage.read(table.layout.path(instant))
            assert decision.completed_at == instant.completed_at, (decision, instant)
            assert decision.metadata_sha256 == hashlib.sha256(content).hexdigest(), instant


def _assert_no_update_was_lost(table: Table) -> None:
    """TL8, where files tell it: each base file was made from the one that stood before it."""
    if table.config.is_merge_on_read:
        return
    newest: dict[tuple[str, str], InstantTime] = {}
    for instant in table.timeline().list_completed_writes():
        for stat in read_instant(table, instant).stats:
            group = (stat.partition_path, stat.file_id)
            assert stat.prev_commit == newest.get(group, stat.prev_commit), (instant, stat)
            newest[group] = instant.requested_at


def _assert_rollbacks_are_whole(table: Table) -> None:
    """RB2, RB3: one rollback per target, of which nothing is left."""
    targets = _rolled_back(table)
    assert len(targets) == len(set(targets)), f"rolled back twice: {targets}"
    gone = set(targets)
    on_timeline = {
        one.requested_at for one in table.timeline().instants if one.action is not Action.SAVEPOINT
    }
    assert gone.isdisjoint(on_timeline), f"rolled back, yet there: {gone & on_timeline}"
    files = [path for path, instant in _data_files(table).items() if instant in gone]
    assert not files, f"files of rolled back instants: {files}"
    marked = gone.intersection(pending_marker_instants(table.storage))
    assert not marked, f"markers of rolled back instants: {marked}"


def _assert_windows_deliver_each_commit_once(table: Table) -> None:
    """TL12, for the windows between any two commits that follow each other."""
    history = History.load(table, table.timeline(), earliest=None)
    if table.list_lost_history():
        with pytest.raises(HistoryLost):
            history.writes(EARLIEST, None)
        return
    every = history.writes(EARLIEST, None)
    ends = [EARLIEST, *(one.completed_at or "" for one in every)]
    delivered = [history.writes(since, until) for since, until in pairwise(ends)]
    assert delivered == [[one] for one in every], delivered


def _rolled_back(table: Table) -> list[InstantTime]:
    """The targets of completed rollbacks, those of a restore included."""
    return [
        target
        for one in table.timeline().iterate_completed()
        if one.action is Action.ROLLBACK
        for target in _targets(one, table.storage.read(table.layout.path(one)))
    ]


def _targets(instant: Instant, content: bytes | None) -> list[InstantTime]:
    """What a completed rollback or restore took back; of anything else nothing."""
    if instant.action is Action.ROLLBACK:
        return read_rollback_targets(content or b"")
    return read_restore_targets(content or b"") if instant.action is Action.RESTORE else []
