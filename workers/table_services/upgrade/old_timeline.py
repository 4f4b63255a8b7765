"""The timeline of version 6, converted to layout 2: planned, written, the old one removed.

The new timeline is written next to the old one, where no reader of version 6 reads. The remains of
a run that died are deleted first, so it is always complete when the properties switch over. Layout
1 records no completion time and orders by request, and so does the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from workers.clock import InstantTime, format_instant, parse_instant
from workers.errors import MalformedTable
from workers.files.avro_container import encode_record
from workers.json_text import read_json
from workers.storage.base import FileInfo, Storage
from workers.table.table import Table
from workers.table_layout import HISTORY, HISTORY_FILES
from workers.table_services.service import Progress
from workers.timeline.archive import ArchivedInstant
from workers.timeline.archive_writer import append
from workers.timeline.avro_schemas import COMMIT_METADATA, REPLACE_COMMIT_METADATA
from workers.timeline.instant import Action, CompletedInstant, Instant, State
from workers.timeline.layout import TimelineLayout
from workers.timeline.service_plans import read_clustering_plan

_OLD: Final = TimelineLayout(1)
_NEW: Final = TimelineLayout(2)
_One = TypeVar("_One")
_PLACEHOLDER: Final = ".nothing-yet"
"""Keeps the directory of an empty timeline, without which Hudi does not open the table."""
_AT_ONCE: Final = 200
"""Files, and archived instants, between two checks of the table lock."""


@dataclass(frozen=True, slots=True)
class ConvertedFile:
    """A file of the old timeline, and what becomes of it."""

    old: FileInfo
    instant: Instant
    """As layout 2 names it."""

    @property
    def path(self) -> str:
        """The path of the new file, relative to the table."""
        return _NEW.path(self.instant)


@dataclass(frozen=True, slots=True)
class ConvertedTimeline:
    """The old timeline as layout 2 will have it."""

    files: tuple[ConvertedFile, ...] = ()
    """The files of the active timeline, ascending by old name."""
    archived: tuple[CompletedInstant, ...] = ()

    @property
    def completed(self) -> list[CompletedInstant]:
        """The completed instants of the active timeline."""
        instants = (file.instant for file in self.files)
        return [instant for instant in instants if isinstance(instant, CompletedInstant)]

    @property
    def completed_at(self) -> dict[InstantTime, InstantTime]:
        """The completion times of writes, by their request times; archived ones as well."""
        instants = (*self.archived, *self.completed)
        return {
            instant.requested_at: instant.completed_at for instant in instants if _counts(instant)
        }


def _counts(instant: Instant) -> bool:
    return instant.action is not Action.SAVEPOINT


def convert_timeline(table: Table) -> ConvertedTimeline:
    """Return what `write_new_timeline` will write for a table of version 6 in which nothing is
    pending. Raises MalformedTable.
    """
    files = [
        (file, instant)
        for file in list_old_files(table.storage)
        if (instant := _OLD.parse(file.name))
    ]
    completed = [listed for _, listed in files if listed.is_completed]
    active = {(done.requested_at, done.action) for done in completed}
    archived = [
        done
        for done in table.list_archived_times()
        if (done.requested_at, done.action) not in active
    ]
    times = completion_times([*completed, *archived])
    clusterings = frozenset(_clusterings(table.storage, files))
    return ConvertedTimeline(
        tuple(
            ConvertedFile(file, _convert_instant(listed, times, clusterings))
            for file, listed in files
        ),
        tuple(replace(done, completed_at=times[done]) for done in archived),
    )


def list_old_files(storage: Storage) -> list[FileInfo]:
    """Return the files of the active timeline of layout 1; an empty completed file does
    not count.
    """
    files = []
    for file in storage.list_files(_OLD.directory):
        instant = _OLD.parse(file.name)
        if instant is not None and (file.size or not instant.is_completed):
            files.append(file)
    return files


def _clusterings(storage: Storage, files: list[tuple[FileInfo, Instant]]) -> Iterator[InstantTime]:
    """Yield the pending clusterings: layout 1 has no action of its own for them."""
    for file, instant in files:
        may_be_clustering = (
            instant.state is State.REQUESTED and instant.action is Action.REPLACECOMMIT
        )
        if (
            may_be_clustering
            and file.size
            and read_clustering_plan(storage.read(file.path)) is not None
        ):
            yield instant.requested_at


def _convert_instant(
    instant: Instant,
    times: Mapping[Instant, InstantTime],
    clusterings: frozenset[InstantTime],
) -> Instant:
    if instant.is_completed:
        return replace(instant, completed_at=times[instant])
    is_clustering = instant.requested_at in clusterings
    return replace(instant, action=Action.CLUSTERING) if is_clustering else instant


def write_new_timeline(
    table: Table,
    carried: ConvertedTimeline,
    confirm: Callable[[], None],
    on_progress: Progress | None = None,
) -> None:
    """Write the new timeline and history next to the old ones. `confirm` raises LeaseLost when
    another process may hold the table lock. `on_progress` gets the finished and all instants.
    """
    storage = table.storage
    confirm()
    storage.delete_many(_list_earlier_files(storage))
    done, total = 0, len(carried.files) + len(carried.archived)

    def put(file: ConvertedFile) -> None:
        content = convert_content(storage.read(file.old.path), file.instant.action)
        storage.put(file.path, content)

    for some in _parts(carried.files):
        confirm()
        storage.at_once(put, some)
        done += len(some)
        if on_progress is not None:
            on_progress(done, total)
    if not total:
        storage.put(f"{_NEW.directory}/{_PLACEHOLDER}", b"")
    if carried.archived:
        append(storage, _history(table, carried), confirm)
        if on_progress is not None:
            on_progress(total, total)


def find_foreign_instants(table: Table) -> list[InstantTime]:
    """Return the instants in the directory of the new timeline that are not on the old one, nor in
    its archive: another engine put them there.
    """
    if table.layout.version != 1:
        return []
    there = (_NEW.parse(file.name) for file in table.storage.list_files(_NEW.directory))
    laid = {
        (instant.requested_at, instant.action.completes_as)
        for instant in there
        if instant is not None
    }
    old_instants = (*table.timeline().instants, *table.list_archived_times())
    return sorted(
        requested_at
        for requested_at, _ in laid
        - {(instant.requested_at, instant.action.completes_as) for instant in old_instants}
    )


def _list_earlier_files(storage: Storage) -> list[str]:
    laid = [
        new_file.path
        for new_file in storage.list_files(_NEW.directory)
        if _NEW.parse(new_file.name)
    ]
    history = [file.path for file in storage.list_tree(HISTORY.path)]
    return [*laid, *history, HISTORY_FILES.path]


def _history(table: Table, carried: ConvertedTimeline) -> list[ArchivedInstant]:
    new = {(instant.requested_at, instant.action): instant for instant in carried.archived}
    return [
        ArchivedInstant(
            new[key],
            convert_content(archived.metadata, key[1]) if archived.metadata else None,
            archived.plan,
        )
        for archived in table.list_archived_instants(with_content=True)
        if (key := (archived.instant.requested_at, archived.instant.action)) in new
    ]


def remove_old(storage: Storage, confirm: Callable[[], None]) -> None:
    """Delete the old timeline, ascending: an instant's completed file before its other files,
    because names sort that way. `confirm` as in `write_new_timeline`.
    """
    for some in _parts(list_old_files(storage)):
        confirm()
        storage.delete_many([file.path for file in some])


def _parts(many: Sequence[_One]) -> Iterator[Sequence[_One]]:
    return (many[start : start + _AT_ONCE] for start in range(0, len(many), _AT_ONCE))


def completion_times(completed: Iterable[Instant]) -> dict[Instant, InstantTime]:
    """Return a completion time for each instant: right after its request, and no two at the same
    time. So order and time travel do not change, and each log file stays in the slice of the base
    file that it is named after.

    Modification times of files mean nothing in a table that was copied. A savepoint, which has its
    commit's request, comes later than that commit.
    """
    ordered = sorted(completed, key=lambda instant: (instant.action is Action.SAVEPOINT, instant))
    times: dict[Instant, InstantTime] = {}
    used: set[InstantTime] = set()
    for instant in ordered:
        at = _after(instant.requested_at)
        while at in used:
            at = _after(at)
        used.add(at)
        times[instant] = at
    return times


def _after(instant: InstantTime) -> InstantTime:
    return format_instant(parse_instant(instant) + 1)


def convert_content(content: bytes, action: Action) -> bytes:
    """Convert the content of a timeline file, or of an archived instant: commits as Avro, in full.

    Raises MalformedTable.
    """
    if content[:1] != b"{":
        return content  # Empty, or Avro in layout 1 already.
    is_replace = action.completes_as is Action.REPLACECOMMIT
    try:
        metadata = read_json(content)
        return encode_record(REPLACE_COMMIT_METADATA if is_replace else COMMIT_METADATA, metadata)
    except (ValueError, TypeError, AttributeError) as error:
        raise MalformedTable("commit metadata cannot be carried over", action=action) from error
