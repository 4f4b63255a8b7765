"""Reads of the archived timeline: the LSM history under `.hoodie/timeline/history/` (format page
2.4).

`manifest_<N>` lists the live files, `<first>_<last>_<level>.parquet`, each with one row per
instant. The highest readable manifest counts: it is published after its files and before
`_version_`, and every later one holds at least the same instants. Lost files are in
`history_files`. Layout 1 (table version 6) keeps its archive in another form: `archive_v1`.
"""

from __future__ import annotations

import io
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter, lt
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime
from workers.errors import HistoryLost, MalformedTable, NotFound
from workers.files.base_file import UNREADABLE, read_parquet
from workers.storage.base import FileInfo, Storage
from workers.table_layout import HISTORY
from workers.timeline.history_files import (
    Bounds,
    HistoryFile,
    HistoryFiles,
    history_lost,
    list_history,
)
from workers.timeline.instant import Action, CompletedInstant, State
from workers.timeline.layout import TimelineLayout

VERSION_PATH = f"{HISTORY.path}/_version_"
_TIMES = ["instantTime", "completionTime", "action"]
_CONTENT = ["metadata", "plan"]
_LOOKS_MAX = 3
_REMEMBERED_MAX = 500_000
"""Instants of one table, of some 250 bytes each; of more none is kept in memory."""
_REQUESTED_AT = attrgetter("requested_at")
_Read = TypeVar("_Read")
_log = logging.getLogger(__name__)
_ACTIONS = {action.value: action for action in Action}


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """An instant of the history, with the requested content."""

    instant: CompletedInstant
    metadata: bytes | None = None
    """What its completed file held; None when only times were asked for."""
    plan: bytes | None = None
    """What the requested file of a planned action held."""


@dataclass(slots=True)
class ArchivedTimeline:
    """A reader's view of the history: files are opened on first use."""

    storage: Storage
    layout: TimelineLayout = field(default_factory=TimelineLayout)
    _history: HistoryFiles | None = None
    _times: dict[str, tuple[CompletedInstant, ...]] = field(default_factory=dict)

    def find_completion(self, requested_at: InstantTime) -> InstantTime | None:
        """Return the completion time of an archived write; None when no such write is archived, or
        its file may be lost (`is_lost`).

        Raises MalformedTable.
        """
        if self.layout.version == 1:
            return None
        for _ in range(_LOOKS_MAX):
            history = self._list_history()
            try:
                return self._look(history, requested_at)
            except NotFound:  # Merged away since the manifest was read, or lost since.
                self._history = None
        raise history_lost(self._list_history().within(_exactly(requested_at)))

    def is_lost(self, requested_at: InstantTime) -> bool:
        """Check whether a file is lost that the instant may have been in."""
        if self.layout.version == 1:
            return False
        return any(lost.can_contain(_exactly(requested_at)) for lost in self._list_history().lost)

    def span(self) -> tuple[InstantTime, InstantTime] | None:
        """Return the first and last request time in the history, or None if it is empty.

        The history is written from the oldest instant on: nothing in between is missing, except
        what is lost.
        """
        files = self._list_history().files
        if not files:
            return None
        return min(file.first for file in files), max(file.last for file in files)

    def _list_history(self) -> HistoryFiles:
        if self._history is None:
            self._history = list_history(self.storage)
        return self._history

    def _look(self, history: HistoryFiles, requested_at: InstantTime) -> InstantTime | None:
        for file in history.within(_exactly(requested_at)):
            if file.name not in self._times:
                try:
                    self._times[file.name] = _times(self.storage, file, history)
                except MalformedTable:
                    self._history = history = history.without(file)
                    continue
            instants = self._times[file.name]
            start = bisect_left(instants, requested_at, key=_REQUESTED_AT)
            for instant in islice(instants, start, None):
                if instant.requested_at != requested_at:
                    break
                if instant.action.writes_data and instant.completed_at:
                    return instant.completed_at
        return None


def _exactly(requested_at: InstantTime) -> Bounds:
    return Bounds(requested_from=requested_at, requested_until=requested_at)


def list_archived_times(
    storage: Storage,
    *,
    requested_from: InstantTime | None = None,
    requested_until: InstantTime | None = None,
    completed_after: InstantTime | None = None,
    completed_until: InstantTime | None = None,
    is_partial: bool = False,
) -> tuple[CompletedInstant, ...]:
    """List archived instants, ascending by requested time, each once; all bounds but
    `completed_after` included.

    Files outside the bounds are not opened, and no file twice by one process. A write that was
    requested before a checkpoint may have completed after it: a caller that goes by completion time
    filters on it and bounds only the completion. Raises HistoryLost when a file that such instants
    may be in is lost, unless a part is enough (`is_partial`). Raises MalformedTable.
    """
    bounds = Bounds(requested_from, requested_until, completed_after, completed_until)

    def read(history: HistoryFiles) -> tuple[CompletedInstant, ...]:
        return _join_times(storage, history, history.within(bounds), is_partial=is_partial)

    instants = _read_history(storage, bounds, read, is_partial=is_partial)
    if bounds.requested_from is not None:
        instants = instants[bisect_left(instants, bounds.requested_from, key=_REQUESTED_AT) :]
    if bounds.requested_until is not None:
        instants = instants[: bisect_right(instants, bounds.requested_until, key=_REQUESTED_AT)]
    if bounds.completed_until is not None or bounds.completed_after is not None:
        instants = tuple(instant for instant in instants if _is_in_time(instant, bounds))
    return instants


def list_archived_instants(
    storage: Storage,
    *,
    requested_from: InstantTime | None = None,
    requested_until: InstantTime | None = None,
    completed_after: InstantTime | None = None,
    completed_until: InstantTime | None = None,
    with_content: bool = False,
    is_partial: bool = False,
) -> list[ArchivedInstant]:
    """List the instants of `list_archived_times`; `with_content` includes what their files held."""
    if not with_content:
        times = list_archived_times(
            storage,
            requested_from=requested_from,
            requested_until=requested_until,
            completed_after=completed_after,
            completed_until=completed_until,
            is_partial=is_partial,
        )
        return [ArchivedInstant(instant) for instant in times]
    bounds = Bounds(requested_from, requested_until, completed_after, completed_until)

    def read(history: HistoryFiles) -> list[ArchivedInstant]:
        parts: list[list[ArchivedInstant]] = []
        for file in history.within(bounds):
            with _passing_over(file, is_partial=is_partial):
                parts.append(_read_file(storage, file, bounds))
        return [archived for part in parts for archived in part]

    return _within(_read_history(storage, bounds, read, is_partial=is_partial), bounds)


def _read_history(
    storage: Storage,
    bounds: Bounds,
    read: Callable[[HistoryFiles], _Read],
    *,
    is_partial: bool,
) -> _Read:
    for _ in range(_LOOKS_MAX):
        history = list_history(storage)
        if not is_partial:
            history.check_whole(bounds)
        try:
            return read(history)
        except NotFound:  # Merged away since the manifest was read.
            continue
    raise history_lost(list_history(storage).within(bounds))


@contextmanager
def _passing_over(file: HistoryFile, *, is_partial: bool) -> Iterator[None]:
    """Treat a file that cannot be read within the block as a lost one."""
    try:
        yield
    except HistoryLost:
        raise
    except MalformedTable as error:
        if not is_partial:
            raise history_lost([file]) from error
        _log.warning("a history file is passed over: error=%s", error)


def read_rows(storage: Storage, file: HistoryFile, columns: list[str] | None = None) -> pa.Table:
    """Return the rows of a history file, of all columns or of these. Raises NotFound,
    MalformedTable.
    """
    content = storage.read(file.path)
    try:
        return read_parquet(io.BytesIO(content), columns)
    except UNREADABLE as error:
        raise MalformedTable("history file is not readable", path=file.path) from error


def newest_completion(storage: Storage, file: HistoryFile) -> InstantTime:
    """Return when the instant of the file that completed last did. Raises NotFound,
    MalformedTable.
    """
    return max((instant.completed_at for instant in _read_times(storage, file)), default="")


@dataclass(slots=True)
class _Seen:
    """The files of a table's history that the process read, by their listing. No file is ever
    written again under its name once a manifest has it, and another one made under it by chance
    would have another time.
    """

    times: dict[FileInfo, tuple[CompletedInstant, ...]] = field(default_factory=dict)
    joined: tuple[list[FileInfo], tuple[CompletedInstant, ...]] | None = None


def _join_times(
    storage: Storage, history: HistoryFiles, files: list[HistoryFile], *, is_partial: bool
) -> tuple[CompletedInstant, ...]:
    memory = storage.cache.of_kind(_Seen)
    infos = [info for file in files if (info := history.listed.get(file.name))]
    is_listed = len(infos) == len(files)
    if is_listed and memory.joined is not None and memory.joined[0] == infos:
        return memory.joined[1]
    parts = []
    for file in files:
        with _passing_over(file, is_partial=is_partial):
            parts.append(_times(storage, file, history))
    instants = _ascending(parts)
    if is_listed and len(files) == len(history.files) == len(parts):
        times = dict(memory.times)
        memory.times = {info: times[info] for info in infos if info in times}
        memory.joined = (infos, instants) if len(instants) <= _REMEMBERED_MAX else None
    return instants


def _times(
    storage: Storage, file: HistoryFile, history: HistoryFiles
) -> tuple[CompletedInstant, ...]:
    """Return the instants of a file, ascending by requested time. Raises NotFound,
    MalformedTable.
    """
    info = history.listed.get(file.name)
    memory = storage.cache.of_kind(_Seen)
    times = memory.times.get(info) if info else None
    if times is None:
        times = _read_times(storage, file)
        if info and sum(map(len, [*memory.times.values(), times])) <= _REMEMBERED_MAX:
            memory.times = {**memory.times, info: times}
    return times


def _read_times(storage: Storage, file: HistoryFile) -> tuple[CompletedInstant, ...]:
    with storage.open_data(file.path) as stream:
        try:
            rows = read_parquet(stream, _TIMES)
        except UNREADABLE as error:
            raise MalformedTable("history file is not readable", path=file.path) from error
    columns = (rows.column(name).to_pylist() for name in _TIMES)
    instants = [
        CompletedInstant(str(requested_at), action, State.COMPLETED, str(completed_at or ""))
        for requested_at, completed_at, text in zip(*columns, strict=True)
        if (action := _ACTIONS.get(text))  # An unknown action has no meaning here.
    ]
    return tuple(sorted(instants, key=_REQUESTED_AT))


def _ascending(parts: Iterable[tuple[CompletedInstant, ...]]) -> tuple[CompletedInstant, ...]:
    """Return each instant once; consecutive parts need no check of each instant."""
    instants = sorted((instant for part in parts for instant in part), key=_REQUESTED_AT)
    times = [instant.requested_at for instant in instants]
    if all(map(lt, times, times[1:])):
        return tuple(instants)
    once = {(instant.requested_at, instant.action): instant for instant in instants}
    return tuple(once[key] for key in sorted(once))


def _read_file(storage: Storage, file: HistoryFile, bounds: Bounds) -> list[ArchivedInstant]:
    rows = read_rows(storage, file, [*_TIMES, *_CONTENT])
    if bounds.requested_from is not None:
        first = pa.scalar(bounds.requested_from)
        rows = rows.filter(pc.greater_equal(rows.column("instantTime"), first))
    if bounds.requested_until is not None:
        last = pa.scalar(bounds.requested_until)
        rows = rows.filter(pc.less_equal(rows.column("instantTime"), last))
    if bounds.completed_until is not None:
        ended = pc.less_equal(rows.column("completionTime"), pa.scalar(bounds.completed_until))
        rows = rows.filter(pc.or_kleene(pc.is_null(ended), ended))
    archived = map(_to_archived, rows.to_pylist())
    return [instant for instant in archived if instant is not None]


def _to_archived(row: dict[str, object]) -> ArchivedInstant | None:
    try:
        action = Action(str(row["action"]))
    except ValueError:  # An unknown action has no meaning here.
        return None
    metadata, plan = row.get("metadata"), row.get("plan")
    return ArchivedInstant(
        CompletedInstant(
            str(row["instantTime"]), action, State.COMPLETED, str(row["completionTime"] or "")
        ),
        metadata if isinstance(metadata, bytes) else None,
        plan if isinstance(plan, bytes) else None,
    )


def _within(read: Iterable[ArchivedInstant], bounds: Bounds) -> list[ArchivedInstant]:
    once = {(archived.instant.requested_at, archived.instant.action): archived for archived in read}
    return [once[key] for key in sorted(once) if _is_in_time(once[key].instant, bounds)]


def _is_in_time(instant: CompletedInstant, bounds: Bounds) -> bool:
    after, until = bounds.completed_after, bounds.completed_until
    return (after is None or instant.completed_at > after) and (
        until is None or instant.completed_at <= until
    )
