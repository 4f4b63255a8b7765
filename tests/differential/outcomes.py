"""Which outcomes the rules allow a write that ran beside others (docs/concurrency.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.differential.model import Entry, Key
from tests.differential.shape import Shape
from tests.differential.writes import READS_ALL, REPLACES, Write
from workers.concurrency.outcome import CommitOutcome, Committed, Conflicted
from workers.errors import InvalidInput, SnapshotChanged

FileGroups = frozenset[tuple[str, str]]
Outcome = CommitOutcome | InvalidInput | SnapshotChanged


@dataclass(frozen=True)
class Begun:
    """A write that has begun: how many events there were then, and where it pauses."""

    write: Write
    at: int
    point: str

    def base(self, entries: list[Entry], events: list[Entry]) -> Entry:
        """What it reads: a commit that is undone before it reads is not there any longer."""
        if self.point == "after_start":
            return [one for one in entries if one.number < self.at][-1]
        stood: list[Entry] = []
        for event in events[: self.at]:
            if event in stood:
                stood.remove(event)
            else:
                stood.append(event)
        return stood[-1]


def assert_allowed(
    shape: Shape,
    begun: Begun,
    base: Entry,
    since: list[Entry],
    outcome: Outcome,
    touched: frozenset[Key],
    file_groups: FileGroups | None,
) -> None:
    """`since`: what was completed or undone since the begin. `touched`: keys that the write
    changes, if it commits now.
    """
    write = begun.write
    undone = [one for one in since if one.number < begun.at]
    rivals = [one for one in since if one.number >= begun.at and since.count(one) == 1]
    if write.is_refused(base.state):
        assert isinstance(outcome, InvalidInput | Conflicted), ("must be refused", outcome)
        return
    assert not isinstance(outcome, InvalidInput), outcome
    match outcome:
        case SnapshotChanged():
            # What it was to read was undone first.
            assert undone, outcome
            assert begun.point == "after_start", outcome
        case Conflicted(conflict=conflict):
            names = {one.instant for one in (*rivals, *undone)}
            assert since, ("lost to nothing", outcome)
            # A schema that was undone is told by the newest commit that has another one.
            is_undone_schema = conflict.kind == "schema" and undone
            assert conflict.rival in names or is_undone_schema, ("lost to a stranger", outcome)
            if conflict.rule == "overlapping_file_groups":
                rival = next(one for one in rivals if one.instant == conflict.rival)
                partitions = {partition for partition, _ in rival.file_groups}
                assert {one for one, _ in conflict.file_groups} <= partitions, (rival, outcome)
            if write.is_non_blocking and not undone:
                _assert_non_blocking_may_lose(write, rivals, outcome)
        case Committed():
            assert file_groups is not None
            if not since and write.count is not None:
                assert outcome.rows == write.count, ("rows", write.count, outcome)
            if not write.is_non_blocking:
                _assert_met_no_rival(rivals, touched, file_groups)
            if begun.point != "after_start":
                _assert_read_nothing_undone(shape, write, undone, file_groups)
        case _:
            raise AssertionError(outcome)


def _assert_non_blocking_may_lose(
    write: Write, rivals: Iterable[Entry], outcome: Conflicted
) -> None:
    has_replaced = any(one.kind in REPLACES or one.kind == "cluster" for one in rivals)
    is_delete = write.kind in ("delete", "upsert") and outcome.conflict.rule == "deleted_unseen"
    assert has_replaced or is_delete, ("non-blocking writers do not lose", outcome)


def _assert_met_no_rival(
    rivals: Iterable[Entry], touched: frozenset[Key], file_groups: FileGroups
) -> None:
    """Of two that changed one row, or one file group, only the first commits."""
    for rival in rivals:
        if rival.kind == "compact":
            continue
        assert not touched & rival.touched, ("both changed", rival, touched & rival.touched)
        both = file_groups & rival.file_groups
        assert not both, ("both wrote", rival, both)


def _assert_read_nothing_undone(
    shape: Shape, write: Write, undone: Iterable[Entry], file_groups: FileGroups
) -> None:
    """A write that read a commit which was rolled back since does not commit."""
    for entry in undone:
        if write.kind in READS_ALL:
            read = entry.file_groups
        elif write.kind in REPLACES or write.is_non_blocking:
            read = frozenset()
        elif shape.is_bucketed:
            read = frozenset() if shape.is_mor else entry.file_groups & file_groups
        else:
            parts = {partition for partition, _ in file_groups}
            read = frozenset(one for one in entry.file_groups if shape.is_global or one[0] in parts)
        assert not read, ("committed, though it read what was undone", entry, read)


def short(outcome: object) -> str:
    if isinstance(outcome, Conflicted):
        return f"Conflicted({outcome.conflict.rule}: {outcome.conflict.message})"
    if isinstance(outcome, Committed):
        again = f", restated by {outcome.republished_by}" if outcome.republished_by else ""
        return f"{outcome.instant} at {outcome.completed_at}{again}"
    return f"{type(outcome).__name__}: {outcome}"[:300]
