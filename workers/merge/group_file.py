"""States on their way into and out of a base file.

The rows of a base file are the live ones. The tombstones of deleted keys are in the file's footer,
where no other reader takes them for rows (MS6).
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime, format_instant, parse_instant
from workers.errors import MalformedTable
from workers.files.arrow_streams import arrow_stream
from workers.files.meta_columns import COMMIT_TIME
from workers.merge.group_state import GONE, SET, bits, has_bit, is_alive, without_state
from workers.merge.top_n_lists import without_retractions
from workers.merge.versions import Mask, with_columns
from workers.options.column_groups import ColumnGroup, GroupRule
from workers.options.group_types import default_scalar
from workers.timeline.group_facts import FactsByGroup, drop_unknown_facts

TOMBSTONES_KEY = "sluice.tombstones"
_MINUTE_MS = 60_000


class StatesOfFile:
    """Splits states into the rows of a base file and the tombstones of its footer."""

    def __init__(self, rule: GroupRule, instant: InstantTime) -> None:
        self._rule = rule
        self._dead: list[pa.Table] = []
        forgotten = parse_instant(instant) - rule.tombstone_minutes * _MINUTE_MS
        self._forgotten = format_instant(max(0, forgotten))
        self.count = 0
        """The number of keys in the footer."""
        self._tombstones: Counter[str] = Counter()

    def rows(self, states: pa.Table) -> pa.Table:
        """Return the live rows among `states`, with the defaults of groups that they lack. Dead
        keys younger than the table's tombstone time are kept for `footer`, older ones are dropped.
        """
        states = without_retractions(states, self._rule.groups(states.column_names))
        alive = is_alive(states)
        if not alive.all():
            dead = states.filter(pa.array(~alive))
            forgotten: Any = pa.scalar(self._forgotten)
            recent: Any = pc.greater_equal(dead.column(COMMIT_TIME), forgotten)
            self._dead.append(dead.filter(recent))
            self.count += self._dead[-1].num_rows
            states = states.filter(pa.array(alive))
            self._count_tombstones(self._dead[-1])
        self._count_tombstones(states)
        return with_defaults(states, self._rule)

    def _count_tombstones(self, states: pa.Table) -> None:
        deleted = bits(states, GONE)
        if deleted.any():
            for number, group in enumerate(self._rule.groups(states.column_names)):
                self._tombstones[group.name] += int(np.count_nonzero(has_bit(deleted, number)))

    def by_group(self) -> FactsByGroup:
        """Return how many deletes of each group the file has, of rows that exist or not."""
        return drop_unknown_facts({name: {"tombstones": n} for name, n in self._tombstones.items()})

    def footer(self) -> dict[str, str]:
        """Return the footer entry that `read_tombstones` reads; empty without dead keys. Call it
        after all `rows`.
        """
        if not self.count:
            return {}
        return {TOMBSTONES_KEY: _encode(pa.concat_tables(self._dead))}


def _encode(dead: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, dead.schema, options=options) as writer:
        writer.write_table(dead)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


def read_tombstones(footer_text: str, *, path: str) -> pa.Table:
    """Read the dead keys from a base file's footer. Raises MalformedTable."""
    try:
        content = base64.b64decode(footer_text, validate=True)
        return arrow_stream(content).read_all()
    except (ValueError, pa.ArrowException) as error:
        raise MalformedTable("a base file's tombstones are damaged", path=path) from error


def to_visible_rows(
    states: pa.Table, rule: GroupRule, *, shows_unmatched: bool = False
) -> pa.Table:
    """Return the rows that a reader sees, without hidden columns: live rows with all groups that
    the table's join requires.
    """
    seen = is_alive(states)
    if not shows_unmatched:
        seen &= is_matched(states, rule)
    rows = states if seen.all() else states.filter(pa.array(seen))
    return without_state(with_defaults(rows, rule))


def is_matched(states: pa.Table, rule: GroupRule) -> Mask:
    """Return which rows have every group that the join requires, undeleted."""
    required = required_bits(rule, states.column_names)
    present = bits(states, SET) & ~bits(states, GONE)
    matched: Mask = (present & required) == required
    return matched


def required_bits(rule: GroupRule, columns: Collection[str]) -> int:
    """Return the bits of the groups that the join requires."""
    groups = enumerate(rule.groups(columns))
    return sum(1 << number for number, group in groups if group.name in rule.required)


def with_defaults(states: pa.Table, rule: GroupRule) -> pa.Table:
    """Fill cells of groups that were never written with their column's default."""
    columns: dict[str, Any] = {}
    for number, group in enumerate(rule.groups(states.column_names)):
        if not group.defaults:
            continue
        unset = ~has_bit(bits(states, SET), number)
        if unset.any():
            is_unset = pa.array(unset)
            for name, value in _defaults(group, states):
                columns[name] = pc.if_else(is_unset, value, states.column(name))
    return with_columns(states, columns)


def _defaults(group: ColumnGroup, states: pa.Table) -> Iterator[tuple[str, Any]]:
    all_names = set(states.column_names)
    for name, value in group.defaults.items():
        if name in all_names:
            yield name, default_scalar(value, states.schema.field(name))
