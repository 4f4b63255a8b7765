"""An immutable snapshot of the active timeline and its selectors.

Each instant appears once, in its highest state. A completed file of zero bytes counts as not
completed (bug A7). Pending files of archived instants, which a stalled process wrote too late, do
not count either.

A process that reads it again reads only the names that are new, and puts together anew the instants
of the seconds that they speak of: a name begins with its instant's request time, so the names of
some seconds stand together.
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
from workers.timeline.decisions import archived_before
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
        """One listing, unless a pending instant is older than every completed one.

        A completed file of no bytes counts as absent. Raises StorageFailed, and MalformedTable for
        such an instant when `archived_before` is damaged.
        """
        layout = layout or TimelineLayout()
        files = storage.list_files(layout.directory)
        memory = storage.remembered.of_kind(_Seen)
        instants = _read(layout, files, memory.last)
        memory.last = (layout.version, files, instants)
        stale = _stale(storage, layout, instants)
        return cls(tuple(one for one in instants if one not in stale) if stale else instants, stale)

    def completed(self) -> Iterator[CompletedInstant]:
        """Ascending by request time, all actions."""
        return (one for one in self.instants if isinstance(one, CompletedInstant))

    def pending(self) -> Iterator[Instant]:
        """Requested or inflight, ascending by request time."""
        return (instant for instant in self.instants if not instant.is_completed)

    def find(self, requested_at: InstantTime) -> Instant | None:
        """The instant itself, never a savepoint of it, which shares its time."""
        requested_then = (one for one in self.instants if one.requested_at == requested_at)
        return next((one for one in requested_then if one.action is not Action.SAVEPOINT), None)

    def completed_writes(self) -> list[CompletedInstant]:
        """Completed instants that wrote data, in the order in which they became visible."""
        writes = [instant for instant in self.completed() if instant.action.writes_data]
        return sorted(writes, key=lambda instant: (instant.completed_at, instant.requested_at))

    @property
    def last_time(self) -> InstantTime | None:
        """The greatest requested or completed time; new times must be greater."""
        times = [one.requested_at for one in self.instants]
        times += [one.completed_at for one in self.instants if one.completed_at is not None]
        return max(times, default=None)

    @property
    def first_time(self) -> InstantTime | None:
        """Files of older instants count as committed (format page 2.4).

        A savepoint may outlive its commit here and begins nothing.
        """
        others = (one.requested_at for one in self.instants if one.action is not Action.SAVEPOINT)
        return next(others, None)


def _stale(
    storage: Storage, layout: TimelineLayout, instants: tuple[Instant, ...]
) -> tuple[Instant, ...]:
    """Archiving leaves a completed write before every pending instant, and removes what it archived
    in ascending order. So only a pending instant older than every completed one can be stale.
    """
    others = (one for one in instants if one.action is not Action.SAVEPOINT)
    oldest = list(takewhile(lambda instant: not instant.is_completed, others))
    if not oldest or layout.version == 1:
        return ()
    border = archived_before(storage)
    return tuple(
        one for one in oldest if one.requested_at < border or _is_archived(storage, layout, one)
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
    from workers.timeline.archive import archived_times

    try:
        archived = archived_times(storage, requested_from=pending.requested_at)
    except MalformedTable:
        return False
    ended = (pending.requested_at, pending.action.completes_as)
    return any((one.requested_at, one.action) == ended for one in archived)


@dataclass(slots=True)
class _Seen:
    """What the process saw of a table's active timeline at its last look."""

    last: tuple[int, Sequence[FileInfo], tuple[Instant, ...]] | None = None
    """The layout's version, the files by name, and what they say: set together."""


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
    """Of the files between those that both listings begin with and those that both end with."""
    head = _alike(former, files)
    old, new = former[head:], files[head:]
    tail = _alike(old[::-1], new[::-1])
    for file in (*old[: len(old) - tail], *new[: len(new) - tail]):
        if (instant := layout.parse(file.name)) is not None:
            yield instant


def _alike(left: Sequence[FileInfo], right: Sequence[FileInfo]) -> int:
    """With how many of the same they begin. Parts compare much faster than one by one."""
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
    """Both in order, each instant once. Few are on the active timeline and older than the last of
    the history: those that a savepoint or an archiver at work left there.
    """
    if not archived or not active:
        return archived or active
    last = archived[-1].requested_at
    end = next((at for at, one in enumerate(active) if one.requested_at > last), len(active))
    if not end:
        return archived + active
    start = bisect_left(archived, active[0].requested_at, key=_REQUESTED_AT)
    between = sorted({*archived[start:], *active[:end]})
    return (*archived[:start], *between, *active[end:])


def _keep_highest(highest: dict[tuple[InstantTime, Action], Instant], instant: Instant) -> None:
    key = (instant.requested_at, instant.action.completes_as)
    known = highest.get(key)
    if known is None or _RANK[known.state] < _RANK[instant.state]:
        highest[key] = instant
