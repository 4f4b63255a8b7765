"""A warning about top-N lists from which a commit removed more than their slack.

These lists are known once the commit is visible, after all concurrent commits. Only file groups are
read in which a task removed something from a list: as they are with the commit and as they were
before it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from workers.concurrency.outcome import CommitOutcome, Committed
from workers.errors import LakehouseError
from workers.merge.incomplete_lists import has_removals, list_incomplete
from workers.read.history import History
from workers.read.inexact_lists import inexact_lists_of
from workers.read.snapshot import schema_for_reading
from workers.read.undisturbed import undisturbed
from workers.table.table import Table
from workers.timeline.timeline import Timeline
from workers.write.context import WriteContext
from workers.write.status import WriteStatus

NAMES_MAX = 10
_log = logging.getLogger(__name__)
_Lists = set[tuple[str, str]]
"""By record key and column."""


def can_exhaust_list(
    context: WriteContext, newer: pa.Table, base: pa.Table | None, merged: pa.Table | None
) -> bool:
    """Check whether rows that come into a file group may leave a list of it incomplete. The rows
    before and after are known if a base file is written.
    """
    if context.rule.groups is None:
        return False
    groups = context.rule.groups.groups(context.schema.field_names)
    if not has_removals(newer, groups):
        return False
    if merged is None:
        return True
    before = _to_key_columns(list_incomplete(base, groups)) if base is not None else set()
    return bool(_to_key_columns(list_incomplete(merged, groups)) - before)


def with_list_warning(
    table: Table, outcome: CommitOutcome, written: Sequence[WriteStatus]
) -> CommitOutcome:
    """Return `outcome` with a warning about such lists. The commit is not affected."""
    looked_at: Sequence[WriteStatus] = [status for status in written if status.may_exhaust_lists]
    if not (looked_at and isinstance(outcome, Committed)):
        return outcome
    if any(status.moved for status in written):
        looked_at = (
            written  # A list that came from another partition may have been reported before.
        )
    groups = {(status.stat.partition_path, status.stat.file_id) for status in looked_at}
    try:
        before, after = undisturbed(
            table, lambda seen: _find_lists_around(table, seen, outcome, groups)
        )
    except (LakehouseError, OSError) as error:
        _log.warning("lists were not checked: instant=%s error=%s", outcome.instant, error)
        warning = f"committed, but whether lists may miss elements since could not be seen: {error}"
        return replace(outcome, warnings=(*outcome.warnings, warning))
    exhausted = sorted(after - before)
    if not exhausted:
        return outcome
    warnings = (*outcome.warnings, _format_warning(exhausted))
    return replace(outcome, warnings=warnings, lists_exhausted=len(exhausted))


def _find_lists_around(
    table: Table, timeline: Timeline, outcome: Committed, groups: set[tuple[str, str]]
) -> tuple[_Lists, _Lists]:
    """Return the incomplete lists of these file groups, just before the commit was visible and once
    it was.
    """
    at = outcome.completed_at
    earlier = [
        instant.completed_at
        for instant in timeline.iterate_completed()
        if instant.completed_at < at
    ]
    before = max(earlier, default=None)
    history = History.load(table, timeline, earliest=before or at)
    schema = schema_for_reading(table, timeline, at, has_data=True)
    stood = history.slices(before, groups=groups) if before else ()
    stands = history.slices(at, groups=groups)
    return (
        _to_key_columns(inexact_lists_of(table, schema, stood)),
        _to_key_columns(inexact_lists_of(table, schema, stands)),
    )


def _to_key_columns(lists: pa.Table) -> _Lists:
    keys, _, columns = (column.to_pylist() for column in lists.columns)
    return set(zip(map(str, keys), map(str, columns), strict=True))


def _format_warning(exhausted: Sequence[tuple[str, str]]) -> str:
    many = "1 list" if len(exhausted) == 1 else f"{len(exhausted)} lists"
    names = ", ".join(f"{column} of {key}" for key, column in exhausted[:NAMES_MAX])
    hidden = len(exhausted) - NAMES_MAX
    more = f" and {hidden} more" if hidden > 0 else ""
    return (
        f"{many} may miss elements since this commit, which took out more than their slack: "
        f"{names}{more}; inexact_lists() names all of the table"
    )
