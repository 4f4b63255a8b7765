"""The LSM history: what is appended is read back, merged by tens, and never torn by a crash."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pyarrow.parquet as pq
import pytest

from tests.support.crash_ports import StillClock
from tests.support.memory_storage import MOMENTS, Crash, FaultyStorage, MemoryStorage
from workers.clock import InstantTime, format_instant
from workers.errors import HistoryLost, LeaseLost, MalformedTable
from workers.table_layout import HISTORY
from workers.timeline import history_files
from workers.timeline.archive import (
    ArchivedInstant,
    ArchivedTimeline,
    list_archived_instants,
    list_archived_times,
)
from workers.timeline.archive_writer import append
from workers.timeline.history_files import list_history
from workers.timeline.instant import Action, CompletedInstant, State

VERSION = ".hoodie/timeline/history/_version_"


def at(number: int) -> InstantTime:
    return format_instant(1_790_000_000_000 + number)


def done(number: int, action: Action = Action.COMMIT) -> ArchivedInstant:
    """Requested at `number`, completed five later, so that completions overlap."""
    instant = CompletedInstant(at(number), action, State.COMPLETED, at(number + 5))
    return ArchivedInstant(instant, f"metadata {number}".encode(), b"a plan")


def nothing() -> None:
    return None


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(StillClock())


def numbers(storage: MemoryStorage) -> list[int]:
    times = [one.instant.requested_at for one in list_archived_instants(storage)]
    every = {at(number): number for number in range(1000)}
    return [every[time] for time in times]


def test_what_was_appended_is_read_back_with_times_contents_and_plans(
    storage: MemoryStorage,
) -> None:
    written = [done(1), done(2, Action.CLEAN), done(3, Action.REPLACECOMMIT)]

    new = append(storage, written, nothing)

    assert new == written
    assert list_archived_instants(storage, with_content=True) == written
    times = list_archived_instants(storage)
    assert [one.instant for one in times] == [one.instant for one in written]
    assert {one.metadata for one in times} == {None}


def test_files_and_columns_are_those_of_the_format(storage: MemoryStorage) -> None:
    append(storage, [done(1), done(9)], nothing)

    name = f"{at(1)}_{at(9)}_0.parquet"
    content = storage.read(f"{HISTORY.path}/{name}")
    assert storage.read(VERSION) == b"1"
    assert json.loads(storage.read(f"{HISTORY.path}/manifest_1")) == {
        "files": [{"fileName": name, "fileLen": len(content)}]
    }
    footer = pq.ParquetFile(io.BytesIO(content))
    assert footer.schema_arrow.names == [
        "instantTime", "completionTime", "action", "metadata", "plan", "version"
    ]  # fmt: skip
    assert not footer.schema_arrow.field("version").nullable
    keys = footer.metadata.metadata or {}
    avro = json.loads(keys[b"parquet.avro.schema"])
    assert avro["name"] == "HoodieLSMTimelineInstant"


def test_ten_files_of_a_level_become_one_of_the_next(storage: MemoryStorage) -> None:
    for number in range(25):
        append(storage, [done(number)], nothing)

    levels = [file.level for file in list_history(storage).manifest.files]
    assert sorted(levels) == [0, 0, 0, 0, 0, 1, 1]
    assert numbers(storage) == list(range(25))


def test_three_snapshots_and_their_files_are_kept(storage: MemoryStorage) -> None:
    for number in range(12):
        append(storage, [done(number)], nothing)

    kept = history_files.manifest_numbers(storage)
    named = {
        file.name
        for number in kept
        for file in (history_files.read_numbered(storage, number) or history_files.Manifest()).files
    }
    present = {file.name for file in storage.list_files(HISTORY.path)}
    assert len(kept) == 3
    assert present == named | {"_version_"} | {f"manifest_{number}" for number in kept}
    assert storage.read(VERSION) == str(max(kept)).encode()


def test_a11_what_is_archived_already_is_not_written_twice(storage: MemoryStorage) -> None:
    append(storage, [done(1), done(2)], nothing)

    new = append(storage, [done(1), done(2), done(3)], nothing)

    assert new == [done(3)]
    assert numbers(storage) == [1, 2, 3]


def test_a11_of_two_archivers_at_once_one_wins(storage: MemoryStorage) -> None:
    def overtaken() -> None:
        append(storage, [done(1), done(2)], nothing)

    with pytest.raises(LeaseLost):
        append(MemoryView(storage), [done(1), done(2)], once(overtaken))

    assert numbers(storage) == [1, 2]


def test_a12_whatever_call_dies_the_next_archiver_succeeds_and_removes_what_was_left() -> None:
    start = MemoryStorage(StillClock())
    for number in range(9):
        append(start, [done(number)], nothing)
    cases = 0
    for moment in MOMENTS:
        for die_at in range(1, 100):
            crashed = FaultyStorage(StillClock(), start.files, die_at=die_at, moment=moment)
            try:
                append(crashed, [done(9)], nothing)
                break
            except Crash:
                cases += 1
            left = MemoryStorage(StillClock(), crashed.files)
            assert numbers(left) in (list(range(9)), list(range(10)))

            append(left, [done(9), done(10)], nothing)

            assert numbers(left) == list(range(11))
            assert [file.level for file in list_history(left).manifest.files] in ([1], [1, 0])
            named = {"_version_"} | {
                f"manifest_{one}" for one in history_files.manifest_numbers(left)
            }
            stray = {file.name for file in left.list_files(HISTORY.path)} - named
            assert all(name.endswith(".parquet") for name in stray)
    assert cases > 15


def test_a12_torn_manifests_and_temporary_files_of_others_stop_nobody(
    storage: MemoryStorage,
) -> None:
    append(storage, [done(1)], nothing)
    storage.put(f"{HISTORY.path}/manifest_2", b"")
    storage.put(f"{HISTORY.path}/manifest_2.tmp.17", b'{"files"')
    assert numbers(storage) == [1]

    append(storage, [done(2)], nothing)

    assert numbers(storage) == [1, 2]
    names = {file.name for file in storage.list_files(HISTORY.path)}
    assert not {"manifest_2", "manifest_2.tmp.17"} & names


def test_a_history_of_which_no_manifest_can_be_read_is_an_error(storage: MemoryStorage) -> None:
    storage.put(f"{HISTORY.path}/manifest_1", b"")

    with pytest.raises(MalformedTable):
        list_archived_instants(storage)


def test_completion_time_of_an_archived_write_is_known(storage: MemoryStorage) -> None:
    append(storage, [done(1), done(2, Action.CLEAN)], nothing)
    timeline = ArchivedTimeline(storage)

    assert timeline.find_completion(at(1)) == at(6)
    assert timeline.find_completion(at(2)) is None  # A clean writes no data.
    assert timeline.find_completion(at(7)) is None


def test_lookup_survives_a_merge_behind_its_back(storage: MemoryStorage) -> None:
    append(storage, [done(1)], nothing)
    timeline = ArchivedTimeline(storage)
    assert timeline.find_completion(at(999)) is None
    for number in range(2, 30):
        append(storage, [done(number)], nothing)

    assert timeline.find_completion(at(1)) == at(6)


def test_bounds_choose_files_and_instants(storage: MemoryStorage) -> None:
    for number in range(6):
        append(storage, [done(number)], nothing)

    chosen = list_archived_instants(storage, requested_from=at(2), completed_until=at(8))

    assert [one.instant.requested_at for one in chosen] == [at(2), at(3)]


def test_file_that_is_gone_stays_noted_as_lost_when_files_around_it_are_merged(
    storage: MemoryStorage,
) -> None:
    for number in range(5):
        append(storage, [done(number)], nothing)
    gone = list_history(storage).files[2]
    content = storage.read(gone.path)
    storage.delete(gone.path)

    for number in range(5, 30):
        append(storage, [done(number)], nothing)

    history = list_history(storage)
    assert [one.level for one in history.files].count(1) == 2
    assert [(one.file, one.newest) for one in history.lost] == [(gone, at(7))]
    assert [one.requested_at for one in list_archived_times(storage, completed_after=at(7))] == [
        at(number) for number in range(3, 30)
    ]
    with pytest.raises(HistoryLost, match=f"missing={gone.name}"):
        list_archived_times(storage, completed_after=at(6))
    with pytest.raises(HistoryLost, match=f"missing={gone.name}"):
        list_archived_times(storage, requested_from=at(2), requested_until=at(2))
    assert list_archived_times(storage, requested_from=at(3), requested_until=at(3))
    storage.put(gone.path, content)
    append(storage, [done(30)], nothing)
    assert numbers(storage) == list(range(31))
    assert list_history(storage).noted.lost == {}


def test_files_of_a_torn_manifest_are_found_and_named_by_the_next_one(
    storage: MemoryStorage,
) -> None:
    for number in range(3):
        append(storage, [done(number)], nothing)
    storage.put(f"{HISTORY.path}/manifest_3", b"{")
    assert numbers(storage) == [0, 1, 2]

    append(storage, [], nothing)

    assert [file.first for file in list_history(storage).manifest.files] == [at(0), at(1), at(2)]
    assert storage.read(VERSION) == b"4"


class MemoryView(MemoryStorage):
    """Another handle on the same files."""

    def __init__(self, other: MemoryStorage) -> None:
        super().__init__(StillClock())
        self.files = other.files


def once(action: Callable[[], None]) -> Callable[[], None]:
    left = [action]
    return lambda: left.pop()() if left else None
