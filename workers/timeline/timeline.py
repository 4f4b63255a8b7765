"""An immutable snapshot of the active timeline and its selectors.

Each instant appears once, in its highest state. A completed file of zero bytes counts as not
completed (bug A7). Pending files of archived instants, which a stalled process wrote too late, do
not count either.

A process that reads it again reads only the new names, and rebuilds the instants of the seconds in
them: a name begins with its instant's request time, so the names of one second are adjacent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from operator import attrgetter

from workers.clock import InstantTime
from workers.errors import MalformedTable
from workers.storage.base import FileInfo, Storage
from workers.timeline.decisions import load_archive_border
from workers.timeline.instant import Action, CompletedInstant, Instant, State
from workers.timeline.layout import TimelineLayout

_SECOND = 14
"""Digits that every instant time has, and by which names and instants sort in the same order."""
_BEHIND = "`"
"""Sorts behind all that follows those digits in a name: digits, a dot, an underscore."""
_NAME = attrgetter("name")
_REQUESTED_AT = attrgetter("requested_at")
_RANK = {State.REQUESTED: 0, State.INFLIGHT: 1, State.COMPLETED: 2}


@dataclass(frozen=True, slots=True)
class Timeline:
    """The active timeline as one listing showed it; it never changes."""

    instants: tuple[Instant, ...]
    """Ascending by requested time."""
    stale: tuple[Instant, ...] = ()
    """Archived instants with pending files, which are not among `instants`."""

    @classmethod
    def load(cls, storage: Storage, layout: TimelineLayout | None = None) -> Timeline:
        """Load the timeline with one listing, unless a pending instant is older than every
        completed one.

        A completed file of no bytes counts as absent. Raises StorageFailed, and MalformedTable for
        such an instant when `archived_before` is damaged.
        """
        layout = layout or TimelineLayout()
        files = storage.list_files(layout.directory)
        memory = storage.cache.of_kind(_Seen)
        instants = _read(layout, files, memory.last)
        memory.last = (layout.version, files, instants)
        stale = _stale(storage, layout, instants)
        return cls(
            tuple(instant for instant in instants if instant not in stale) if stale else instants,
            stale,
        )

    def iterate_completed(self) -> Iterator[CompletedInstant]:
        """Yield the completed instants of all actions, ascending by request time."""
        return (instant for instant in self.instants if isinstance(instant, CompletedInstant))

    def pending(self) -> Iterator[Instant]:
        """Yield requested or inflight instants, ascending by request time."""
        return (instant for instant in self.instants if not instant.is_completed)

    def find(self, requested_at: InstantTime) -> Instant | None:
        """Return the instant itself, never a savepoint of it, which shares its time."""
        requested_then = (
            instant for instant in self.instants if instant.requested_at == requested_at
        )
        return next(
            (instant for instant in requested_then if instant.action is not Action.SAVEPOINT), None
        )

    def list_completed_writes(self) -> list[CompletedInstant]:
        """List completed instants that wrote data, in the order in which they became visible."""
        writes = [instant for instant in self.iterate_completed() if instant.action.writes_data]
        return sorted(writes, key=lambda instant: (instant.completed_at, instant.requested_at))

    @property
    def last_time(self) -> InstantTime | None:
        """The greatest requested or completed time; new times must be greater."""
        times = [instant.requested_at for instant in self.instants]
        times += [
            instant.completed_at for instant in self.instants if instant.completed_at is not None
        ]
        return max(times, default=None)

    @property
    def first_time(self) -> InstantTime | None:
        """The first request time. Files of older instants count as committed (format page 2.4).

        A savepoint may outlive its commit here and begins nothing.
        """
        others = (
            instant.requested_at
            for instant in self.instants
            if instant.action is not Action.SAVEPOINT
        )
        return next(others, None)


def _stale(
    storage: Storage, layout: TimelineLayout, instants: tuple[Instant, ...]
) -> tuple[Instant, ...]:
    """Find stale pending instants. Archiving leaves a completed write before every pending instant,
    and removes what it archived in ascending order. So only a pending instant older than every
    completed one can be stale.
    """
    others = (instant for instant in instants if instant.action is not Action.SAVEPOINT)
    oldest = list(takewhile(lambda instant: not instant.is_completed, others))
    if not oldest or layout.version == 1:
        return ()
    border = load_archive_border(storage)
    return tuple(
        instant
        for instant in oldest
        if instant.requested_at < border or _is_archived(storage, layout, instant)
    )


def _is_archived(storage: Storage, layout: TimelineLayout, pending: Instant) -> bool:
    """Check an inflight file without its requested one in the history: another engine's archiver
    keeps no `archived_before`. A damaged history must not hide the timeline.
    """
    if pending.state is not State.INFLIGHT:
        return False
    if storage.info(layout.path(replace(pending, state=State.REQUESTED))) is not None:
        return False
    # Late, because the archive needs pyarrow, which the marker server does not load at its start.
    from workers.timeline.archive import list_archived_times

    try:
        archived = list_archived_times(storage, requested_from=pending.requested_at)
    except MalformedTable:
        return False
    ended = (pending.requested_at, pending.action.completes_as)
    return any((instant.requested_at, instant.action) == ended for instant in archived)


@dataclass(slots=True)
class _Seen:
    """The process's last listing of a table's active timeline."""

    last: tuple[int, Sequence[FileInfo], tuple[Instant, ...]] | None = None
    """The layout's version, the files by name, and their instants: set together."""


def _read(
    layout: TimelineLayout,
    files: Sequence[FileInfo],
    seen: tuple[int, Sequence[FileInfo], tuple[Instant, ...]] | None,
) -> tuple[Instant, ...]:
    if seen is None or seen[0] != layout.version:
        return _instants(layout, files)
    _, former, instants = seen
    if files is former:
        return instants
    times = {instant.requested_at[:_SECOND] for instant in _differing(layout, former, files)}
    if not times:
        return instants
    first, behind = min(times), max(times) + _BEHIND
    start, end = (bisect_left(files, bound, key=_NAME) for bound in (first, behind))
    head, tail = (bisect_left(instants, bound, key=_REQUESTED_AT) for bound in (first, behind))
    return (*instants[:head], *_instants(layout, files[start:end]), *instants[tail:])


def _differing(
    layout: TimelineLayout, former: Sequence[FileInfo], files: Sequence[FileInfo]
) -> Iterator[Instant]:
    """Yield the instants of files that differ, between a common head and a common tail."""
    head = _alike(former, files)
    old, new = former[head:], files[head:]
    tail = _alike(old[::-1], new[::-1])
    for file in (*old[: len(old) - tail], *new[: len(new) - tail]):
        if (instant := layout.parse(file.name)) is not None:
            yield instant


def _alike(left: Sequence[FileInfo], right: Sequence[FileInfo]) -> int:
    """Return the length of the common head. Comparing parts is much faster than each element."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _instants(layout: TimelineLayout, files: Iterable[FileInfo]) -> tuple[Instant, ...]:
    highest: dict[tuple[InstantTime, Action], Instant] = {}
    for file in files:
        instant = layout.parse(file.name)
        if instant is None or (instant.is_completed and file.size == 0):
            continue
        _keep_highest(highest, instant)
    return tuple(sorted(highest.values()))


def with_archived(
    archived: tuple[Instant, ...], active: tuple[Instant, ...]
) -> tuple[Instant, ...]:
    """Return both in order, each instant once. Few are on the active timeline and older than the
    last of the history: those that a savepoint or a working archiver left there.
    """
    if not archived or not active:
        return archived or active
    last = archived[-1].requested_at
    end = next(
        (at for at, instant in enumerate(active) if instant.requested_at > last), len(active)
    )
    if not end:
        return archived + active
    start = bisect_left(archived, active[0].requested_at, key=_REQUESTED_AT)
    between = sorted({*archived[start:], *active[:end]})
    return (*archived[:start], *between, *active[end:])


def _keep_highest(highest: dict[tuple[InstantTime, Action], Instant], instant: Instant) -> None:
    key = (instant.requested_at, instant.action.completes_as)
    highest_instant = highest.get(key)
    if highest_instant is None or _RANK[highest_instant.state] < _RANK[instant.state]:
        highest[key] = instant
