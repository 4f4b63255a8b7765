"""A process that reads a timeline again tells what one tells that reads it for the first time."""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.support.counted_storage import CountedStorage
from tests.support.crash_ports import StillClock
from tests.support.memory_storage import MemoryStorage
from workers.storage.local import LocalStorage
from workers.timeline import archive
from workers.timeline.archive import ArchivedInstant, ArchivedTimeline, list_archived_times
from workers.timeline.archive_writer import append
from workers.timeline.instant import Action, CompletedInstant, Instant, State
from workers.timeline.layout import TimelineLayout
from workers.timeline.timeline import Timeline, with_archived

LAYOUT = TimelineLayout()
# Of both lengths: one is the beginning of others, and its files do not stand beside each other.
TIMES = [f"2026010100{minute:02d}00" for minute in range(3)]
TIMES = sorted([*TIMES, *(time + millis for time in TIMES for millis in ("000", "500"))])
ACTIONS = [Action.COMMIT, Action.DELTACOMMIT, Action.COMPACTION, Action.CLEAN, Action.SAVEPOINT]
STEPS = st.tuples(
    st.sampled_from(["request", "start", "complete", "empty", "fill", "remove", "foreign"]),
    st.sampled_from(TIMES),
    st.sampled_from(ACTIONS),
)


class Places:
    """One table under many names: who opens it under a new one knows nothing of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()
        self.root = folder / "table"
        (self.root / LAYOUT.directory).mkdir(parents=True)

    def stranger(self) -> LocalStorage:
        alias = self._folder / f"alias-{next(self._numbers)}"
        alias.symlink_to(self.root)
        return LocalStorage(alias)


@settings(deadline=None)
@given(st.lists(st.lists(STEPS, min_size=1, max_size=4), max_size=10))
def test_a_reader_that_remembers_sees_the_same_timeline(
    looks: list[list[tuple[str, str, Action]]],
) -> None:
    """Between two looks several things may have happened."""
    with tempfile.TemporaryDirectory(dir=_fast()) as folder:
        places = Places(Path(folder))
        reader = LocalStorage(places.root)
        for steps in looks:
            for step, time, action in steps:
                taken(places.root, step, time, action)

            stranger = places.stranger()
            assert names(reader) == names(stranger)
            assert Timeline.load(reader) == Timeline.load(stranger)


def test_files_of_a_time_in_seconds_do_not_stand_together(tmp_path: Path) -> None:
    """Its pending files stand before those of the milliseconds of that second, its completed one
    behind them: in a window that ends between, it would be pending again.
    """
    root = Places(tmp_path).root
    before, seconds, millis = "20260101000000500", "20260101000100", "20260101000100500"
    for time in (before, seconds, millis):
        taken(root, "request", time, Action.COMMIT)
    taken(root, "complete", seconds, Action.COMMIT)
    reader = LocalStorage(root)
    Timeline.load(reader)

    for time in (before, millis):
        taken(root, "complete", time, Action.COMMIT)

    timeline = Timeline.load(reader)
    assert [one.requested_at for one in timeline.iterate_completed()] == [before, seconds, millis]


@pytest.mark.parametrize("step", ["remove", "complete"])
def test_the_first_and_one_in_the_middle_may_change_between_two_looks(
    tmp_path: Path, step: str
) -> None:
    """As when an archiver takes the oldest, and a rollback one that others have overtaken."""
    root = Places(tmp_path).root
    times = [f"2026010100{minute:02d}00000" for minute in range(4)]
    first, kept, middle, last = times
    present = times if step == "remove" else [kept, last]
    for time in present:
        taken(root, "complete", time, Action.COMMIT)
    reader = LocalStorage(root)
    Timeline.load(reader)

    for time in (first, middle):
        taken(root, step, time, Action.COMMIT)

    left = [kept, last] if step == "remove" else times
    assert [one.requested_at for one in Timeline.load(reader).instants] == left


def test_a_table_that_was_upgraded_is_read_anew(tmp_path: Path) -> None:
    """Its old timeline says nothing any more."""
    reader = LocalStorage(tmp_path / "table")
    old = CompletedInstant(TIMES[0], Action.COMMIT, State.COMPLETED, TIMES[0])
    reader.put(TimelineLayout(1).path(old), b"x")
    assert Timeline.load(reader, TimelineLayout(1)).instants == (old,)
    new = CompletedInstant(TIMES[-2], Action.COMMIT, State.COMPLETED, TIMES[-1])
    reader.put(LAYOUT.path(new), b"x")

    assert Timeline.load(reader).instants == (new,)


def names(storage: LocalStorage) -> list[str]:
    """In the order of the listing, by which windows of time are found."""
    return [file.name for file in storage.list_files(LAYOUT.directory)]


def taken(root: Path, step: str, time: str, action: Action) -> None:
    """One step of somebody else, in whatever order: a foreign engine's or a torn one as well."""
    requested = Instant(time, action, State.REQUESTED)
    done = requested.complete(f"{time.ljust(17, '0')[:-1]}9")
    match step:
        case "request":
            (root / LAYOUT.path(requested)).touch()
        case "start":
            (root / LAYOUT.path(requested.inflight())).write_bytes(b"started")
        case "complete":
            # As an object store or a rename does it: whole, and another file each time.
            (root / "new").write_bytes(b"done")
            (root / "new").rename(root / LAYOUT.path(done))
        case "empty":
            (root / LAYOUT.path(done)).unlink(missing_ok=True)
            (root / LAYOUT.path(done)).touch()
        case "fill":
            (root / LAYOUT.path(done)).write_bytes(b"filled")
        case "remove":
            for instant in (requested, requested.inflight(), done):
                (root / LAYOUT.path(instant)).unlink(missing_ok=True)
        case _:
            (root / LAYOUT.directory / f".{time}.crc").write_bytes(b"no instant")


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), max_size=14))
def test_a_reader_that_remembers_sees_the_same_history(batches: list[list[int]]) -> None:
    """Fourteen appends merge ten files into one; numbers that come again are archived already."""
    with tempfile.TemporaryDirectory(dir=_fast()) as folder:
        places = Places(Path(folder))
        reader, known = LocalStorage(places.root), set[Instant]()
        for batch in batches:
            instants = [archived(number) for number in sorted(set(batch))]
            append(places.stranger(), instants, lambda: None)
            known |= {one.instant for one in instants}

            assert list_archived_times(reader) == tuple(sorted(known))
            assert list_archived_times(places.stranger()) == tuple(sorted(known))
            middle = sorted(known)[len(known) // 2].requested_at
            assert list_archived_times(reader, requested_from=middle) == tuple(
                one for one in sorted(known) if one.requested_at >= middle
            )
            assert ArchivedTimeline(reader).find_completion(middle) is not None


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)), st.booleans())
def test_history_and_timeline_are_joined_in_order(
    old: set[int], new: set[int], has_savepoint: bool
) -> None:
    before = tuple(archived(number).instant for number in sorted(old))
    active: list[Instant] = [archived(number).instant for number in sorted(new)]
    if has_savepoint and before:  # It stays while its commit is archived.
        first = before[0]
        active.append(Instant(first.requested_at, Action.SAVEPOINT, State.INFLIGHT))

    assert with_archived(before, tuple(sorted(active))) == tuple(sorted({*before, *active}))


def archived(number: int) -> ArchivedInstant:
    time = f"202601010000{number:02d}000"
    instant = CompletedInstant(time, Action.COMMIT, State.COMPLETED, f"{time[:-3]}400")
    return ArchivedInstant(instant, b"metadata", None)


@pytest.fixture
def counted(tmp_path: Path) -> CountedStorage:
    places = Places(tmp_path)
    for start in range(0, 24, 2):
        both = [archived(start), archived(start + 1)]
        append(LocalStorage(places.root), both, lambda: None)
    for time in TIMES:
        taken(places.root, "complete", time, Action.COMMIT)
    return CountedStorage(places.root)


def looked(storage: CountedStorage) -> dict[str, int]:
    storage.calls.clear()
    with_archived(list_archived_times(storage), Timeline.load(storage).instants)
    return dict(storage.calls)


AGAIN = {"list_files": 2, "read": 1}
"""Both directories and the manifest; no file of the history and none of the timeline."""
CHANGED = AGAIN | {"read": 2, "read_tagged": 1}
"""And the note about the history's files, where the directory's listing is another."""


def test_history_files_are_opened_once(counted: CountedStorage) -> None:
    assert looked(counted) == CHANGED | {"open_data": 3}

    assert looked(counted) == AGAIN


def test_one_more_commit_opens_nothing(counted: CountedStorage, tmp_path: Path) -> None:
    looked(counted)

    taken(tmp_path / "table", "complete", "20260202000000000", Action.COMMIT)

    assert looked(counted) == AGAIN
    assert Timeline.load(counted).instants[-1].requested_at == "20260202000000000"


def test_of_a_history_that_grew_only_the_new_file_is_opened(
    counted: CountedStorage, tmp_path: Path
) -> None:
    looked(counted)

    append(LocalStorage(tmp_path / "table"), [archived(50)], lambda: None)

    assert looked(counted) == CHANGED | {"open_data": 1}
    assert list_archived_times(counted)[-1] == archived(50).instant


def test_who_opens_the_table_beside_others_knows_what_they_know(
    counted: CountedStorage, tmp_path: Path
) -> None:
    looked(counted)

    assert looked(CountedStorage(tmp_path / "table")) == AGAIN


def test_a_history_that_is_too_large_to_remember_is_read_again(
    counted: CountedStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = list_archived_times(MemoryCopy(counted))
    monkeypatch.setattr(archive, "_REMEMBERED_MAX", 5)

    assert list_archived_times(counted) == whole
    assert looked(counted) == AGAIN | {"open_data": 1}, "the two small files are remembered"


class MemoryCopy(MemoryStorage):
    """The same files in a storage that remembers nothing."""

    def __init__(self, other: LocalStorage) -> None:
        files = {file.path: (other.read(file.path), 0) for file in other.list_tree("")}
        super().__init__(StillClock(), files)


def _fast() -> str | None:
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() else None
