"""How complete the rows of a table with column groups are, by some of its file slices.

Of each slice only the hidden bits and the ordering columns are read; of the first ones, within a
smaller bound, the columns' nulls as well. What is read is bounded, whatever the table holds.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from workers.clock import parse_instant
from workers.errors import InvalidInput, NotFound
from workers.files.meta_columns import COMMIT_TIME, RECORD_KEY
from workers.merge.group_file import required_bits
from workers.merge.group_state import GONE, SET, bits, has_bit
from workers.merge.versions import Mask
from workers.options.column_groups import ColumnGroup, GroupRule
from workers.options.time_units import AHEAD_MAX_MS, TimeUnits, time_units
from workers.read.event_time import NO_TIME, Times, event_times
from workers.read.file_slice import merged_state_parts
from workers.read.slice_sample import SampleBounds, sampled
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.table.view import FileSystemView

Bits: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]
OLDEST_KEPT = 20
COLUMNS_MAX = 120
"""How many columns the coverage map has; further ones of a very wide table are left out."""
BUCKETS_MAX = 40
_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS
_WIDTHS_MS = (
    *(_MINUTE_MS * n for n in (1, 5, 15, 30)),
    *(_HOUR_MS * n for n in (1, 3, 6, 12)),
    *(_DAY_MS * n for n in (1, 2, 7, 30, 90, 365, 3650)),
)
_TIMED_PART = 0.9
"""With times on fewer rows than this the map goes by commits."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One key that lacks a group."""

    key: str
    partition: str
    waits_for: tuple[str, ...]
    event_ms: int | None
    """The oldest event that the row has."""
    commit: str
    """The newest commit that the row has."""


@dataclass(frozen=True, slots=True)
class ColumnCoverage:
    """In how many live rows the column was set, over time."""

    group: str
    column: str
    rows_set: tuple[int, ...]
    """By bucket."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How full the join is over time: equal buckets of `width_ms` from `first_ms` on, milliseconds
    since the epoch.
    """

    by: str
    """`event` or `commit`: which time of a row is taken."""
    first_ms: int
    width_ms: int
    rows: tuple[int, ...]
    """By bucket."""
    columns: tuple[ColumnCoverage, ...]
    columns_left_out: int = 0
    rows_beyond: int = 0
    """Rows of the last bucket whose time is further ahead of the clock than clocks differ."""


@dataclass(frozen=True, slots=True)
class JoinSample:
    """How complete the sampled keys are. Counts are of the slices that were read."""

    groups: tuple[str, ...]
    """The declared ones; `_default` is none of them."""
    slices: int
    slices_read: int
    keys: int
    """Live ones in what was read."""
    hidden: int
    """How many of them the table's join does not show."""
    presence: tuple[tuple[tuple[str, ...], int], ...]
    """(groups that a key has, how many such keys), the most frequent first."""
    tombstones: dict[str, int]
    oldest: tuple[Waiting, ...]
    """Incomplete keys, the oldest event first."""
    coverage: Coverage | None

    @property
    def is_exact(self) -> bool:
        """All slices of the table were read."""
        return self.slices == self.slices_read


def sample_join(table: Table, bounds: SampleBounds | None = None) -> JoinSample:
    """A sample of the table's rows, and which column groups each of them has. Raises InvalidInput
    for a table without groups, MalformedTable, StorageFailed.
    """
    rule, schema = table.config.groups, load_schema(table)
    if rule is None or schema is None:
        raise InvalidInput("only a table with column groups has a join", table=table.config.name)
    view = FileSystemView.load(table)
    units, now_ms = time_units(table.config.time_units), table.ports.clock.now_ms()
    tally, read = _Tally(rule, schema, units, now_ms), 0
    for slice_, is_wide in sampled(table, view, bounds or SampleBounds()):
        try:
            parts = _states(table, schema, slice_, tally.columns if is_wide else ())
        except NotFound:
            continue  # Cleaned away since the listing.
        for states in parts:
            tally.add(slice_, states, is_wide=is_wide)
        read += 1
    return tally.sample(len(view.slices), read)


def _states(
    table: Table,
    schema: TableSchema,
    slice_: FileSlice,
    columns: Sequence[str],
) -> Sequence[pa.Table]:
    wanted = {COMMIT_TIME, *columns}
    parts = merged_state_parts(table.storage, table.config, schema, slice_, columns=wanted)
    return list(parts)


@dataclass(slots=True)
class _Tally:
    rule: GroupRule
    schema: TableSchema
    units: TimeUnits
    now_ms: int
    groups: tuple[ColumnGroup, ...] = ()
    columns: tuple[str, ...] = ()
    left_out: int = 0
    keys: int = 0
    hidden: int = 0
    presence: Counter[int] = field(default_factory=Counter)
    tombstones: Counter[str] = field(default_factory=Counter)
    oldest: list[tuple[int, str, Waiting]] = field(default_factory=list)
    events: list[Times] = field(default_factory=list)
    commits: list[Times] = field(default_factory=list)
    is_set: dict[str, list[Mask]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.groups = self.rule.groups(self.schema.field_names)
        named = [name for one in self.groups[1:] for name in one.columns]
        here = [name for name in named if name in self.schema.field_names]
        self.columns = tuple(here[:COLUMNS_MAX])
        self.left_out = len(here) - len(self.columns)

    @property
    def _complete(self) -> int:
        """All bits but that of `_default`, which is the first."""
        return (1 << len(self.groups)) - 2

    def add(self, slice_: FileSlice, states: pa.Table, *, is_wide: bool) -> None:
        gone = bits(states, GONE)
        present = bits(states, SET) & ~gone
        for number, group in enumerate(self.groups):
            if deleted := int(np.count_nonzero(has_bit(gone, number))):
                self.tombstones[group.name] += deleted
        alive = present != 0
        rows, present = states.filter(pa.array(alive)), present[alive]
        masks, counts = np.unique(present, return_counts=True)
        for mask, count in zip(masks.tolist(), counts.tolist(), strict=True):
            self.presence[mask] += count
        wanted = required_bits(self.rule, self.schema.field_names)
        self.keys += rows.num_rows
        self.hidden += int(np.count_nonzero((present & wanted) != wanted))
        times = self._event_times(rows, present)
        self._remember_oldest(slice_, rows, present, times)
        if is_wide:
            self._remember_columns(rows, present, times)

    def _event_times(self, rows: pa.Table, present: Bits) -> Times:
        """Per row the oldest event of the groups that it has."""
        most = np.iinfo(np.int64).max
        oldest = np.full(rows.num_rows, most)
        for number, group in enumerate(self.groups):
            if group.ordering and group.ordering[0] in rows.column_names and rows.num_rows:
                name = group.ordering[0]
                times = event_times(rows.column(name), self.units.of(name))
                counts = has_bit(present, number) & (times != NO_TIME)
                oldest = np.where(counts, np.minimum(oldest, times), oldest)
        return np.where(oldest == most, NO_TIME, oldest)

    def _remember_oldest(
        self,
        slice_: FileSlice,
        rows: pa.Table,
        present: Bits,
        times: Times,
    ) -> None:
        lacking = np.flatnonzero((present & self._complete) != self._complete)
        # A row without a time is as old as its newest commit, behind those that have one.
        ages = np.where(times[lacking] == NO_TIME, np.iinfo(np.int64).max, times[lacking])
        for at in lacking[np.argsort(ages, kind="stable")][:OLDEST_KEPT]:
            key = str(rows.column(RECORD_KEY)[int(at)].as_py())
            commit = str(rows.column(COMMIT_TIME)[int(at)].as_py() or "")
            time = None if times[at] == NO_TIME else int(times[at])
            waits = [
                one.name
                for number, one in enumerate(self.groups[1:], start=1)
                if not (int(present[at]) >> number) & 1
            ]
            waiting = Waiting(key, slice_.partition, tuple(waits), time, commit)
            rank = (1 << 62) if time is None else time
            self.oldest.append((rank, commit + key, waiting))
        self.oldest = heapq.nsmallest(OLDEST_KEPT, self.oldest, key=lambda entry: entry[:2])

    def _remember_columns(self, rows: pa.Table, present: Bits, times: Times) -> None:
        self.events.append(times)
        commits = [
            parse_instant(text) if text else int(NO_TIME)
            for text in rows.column(COMMIT_TIME).to_pylist()
        ]
        self.commits.append(np.array(commits, np.int64))
        for number, group in enumerate(self.groups):
            there = has_bit(present, number)
            for column in group.columns:
                if column in self.columns:
                    valid = np.asarray(rows.column(column).is_valid().to_numpy())
                    self.is_set.setdefault(column, []).append(valid & there)

    def sample(self, slices: int, slices_read: int) -> JoinSample:
        by_names: Counter[tuple[str, ...]] = Counter()
        for mask, count in self.presence.items():
            numbered = enumerate(self.groups[1:], start=1)
            by_names[tuple(one.name for number, one in numbered if (mask >> number) & 1)] += count
        return JoinSample(
            groups=tuple(one.name for one in self.groups[1:]),
            slices=slices,
            slices_read=slices_read,
            keys=self.keys,
            hidden=self.hidden,
            presence=tuple(by_names.most_common()),
            tombstones=dict(self.tombstones),
            oldest=tuple(one for *_, one in self.oldest),
            coverage=self._coverage(),
        )

    def _coverage(self) -> Coverage | None:
        events = np.concatenate(self.events) if self.events else np.empty(0, np.int64)
        if not len(events):
            return None
        is_timed = events != NO_TIME
        by = "event" if np.count_nonzero(is_timed) >= _TIMED_PART * len(events) else "commit"
        times = events if by == "event" else np.concatenate(self.commits)
        known = times[times != NO_TIME]
        if not len(known):
            return None
        # Rare events of long ago share the first bucket instead of flattening all others, and
        # those that claim to be of a time to come share the last one.
        bound_ms = self.now_ms + AHEAD_MAX_MS
        last = min(int(known.max()), bound_ms)
        first = min(int(np.quantile(known, 0.01)), last)
        width = next(
            (one for one in _WIDTHS_MS if (last - first) // one + 2 <= BUCKETS_MAX), _WIDTHS_MS[-1]
        )
        first -= first % width
        count = min((last - first) // width + 1, BUCKETS_MAX)
        at = np.clip((times - first) // width, 0, count - 1)[times != NO_TIME]
        owner = {name: one.name for one in self.groups for name in one.columns}
        columns = [
            ColumnCoverage(owner[name], name, _counted(at, np.concatenate(parts), times, count))
            for name, parts in self.is_set.items()
        ]
        rows = tuple(np.bincount(at, minlength=count).tolist())
        beyond = int(np.count_nonzero(known > bound_ms))
        return Coverage(by, first, width, rows, tuple(columns), self.left_out, beyond)


def _counted(at: Times, is_set: Mask, times: Times, count: int) -> tuple[int, ...]:
    return tuple(np.bincount(at[is_set[times != NO_TIME]], minlength=count).tolist())
