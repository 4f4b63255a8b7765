"""The instants that a rollback of several takes, and their order. Changes nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.concurrency.republish import is_republication
from workers.errors import InvalidInput, MalformedTable
from workers.recovery.plan import (
    RollbackPlan,
    find_cleaned_file_blockers,
    find_plan_blockers,
    is_compaction,
    plan_rollback,
)
from workers.recovery.rollback import find_rollback_instant
from workers.table.schema_history import is_service_commit, read_instant
from workers.table.table import Table
from workers.table_services.parameters import parse_list
from workers.timeline.instant import CompletedInstant, Instant
from workers.timeline.metadata import ROWS_KEY
from workers.timeline.timeline import Timeline

INSTANTS_KEY = "instants"
AFTER_KEY = "after"
STEPS_MAX = 200
_INSTANT = re.compile(r"[0-9]{17}")


@dataclass(frozen=True, slots=True)
class RollbackStep:
    """One instant of several."""

    instant: Instant
    plan: RollbackPlan
    """Its own, as if all newer ones were gone."""
    rows: int | None
    """The rows in its commit's metadata; None for a pending instant, or without a count."""
    why: str
    """Why it is rolled back although it was not chosen; empty for one that was chosen."""


@dataclass(frozen=True, slots=True)
class RollbackOrder:
    """The steps in the order of doing, and what speaks against them."""

    steps: tuple[RollbackStep, ...]
    blockers: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Chosen:
    instants: Sequence[Instant]
    missing: Mapping[InstantTime, InstantTime]
    """Target -> the rollback that undid it before."""
    unknown: Sequence[InstantTime] = ()


def plan_rollback_order(table: Table, parameters: Mapping[str, str]) -> RollbackOrder:
    """Return the steps: pending instants first, then completed ones as they became visible, newest
    first.

    Raises InvalidInput for parameters that name no instants.
    """
    timeline = table.timeline()
    chosen = _choose(table, timeline, parameters)
    whys = _on_top(table, timeline, chosen.instants)
    completed = [
        write
        for write in timeline.list_completed_writes()
        if write in chosen.instants or write.requested_at in whys
    ]
    pending = [choice for choice in chosen.instants if choice not in completed]
    ordered: list[Instant] = sorted(pending, key=lambda instant: instant.requested_at, reverse=True)
    ordered += reversed(completed)
    steps = tuple(_step(table, instant, whys.get(instant.requested_at, "")) for instant in ordered)
    return RollbackOrder(
        steps,
        tuple(_find_blockers(table, timeline, chosen, steps, completed)),
        tuple(_warnings(chosen, steps)),
    )


def _choose(table: Table, timeline: Timeline, parameters: Mapping[str, str]) -> _Chosen:
    valid_keys = (INSTANTS_KEY, AFTER_KEY)
    if unknown := set(parameters) - set(valid_keys):
        raise InvalidInput("unknown parameter", key=min(unknown), known=list(valid_keys))
    names = parse_list(parameters.get(INSTANTS_KEY, ""))
    after = parameters.get(AFTER_KEY, "").strip()
    if bool(names) == bool(after):
        raise InvalidInput(
            "name the instants, or the one after which all go", known=list(valid_keys)
        )
    for name in (*names, *([after] if after else [])):
        if not _INSTANT.fullmatch(name):
            raise InvalidInput("instant time has not 17 digits", instant=name[:32])
    if len(names) > STEPS_MAX:
        raise InvalidInput("too many instants for one plan", count=len(names), most=STEPS_MAX)
    if after:
        return _Chosen(_all_after(table, timeline, after), {})
    instants = {name: timeline.find(name) for name in names}
    off = [name for name, instant in instants.items() if instant is None]
    rollbacks = {name: by for name in off if (by := find_rollback_instant(table, name)) is not None}
    return _Chosen(
        [found for found in instants.values() if found is not None],
        rollbacks,
        [name for name in off if name not in rollbacks],
    )


def _all_after(table: Table, timeline: Timeline, after: InstantTime) -> list[Instant]:
    """Return all instants after `after`. A republished commit of `after` stays: other engines need
    it.
    """
    goal = timeline.find(after)
    if not isinstance(goal, CompletedInstant) or not goal.action.writes_data:
        raise InvalidInput("this is not a completed commit of the active timeline", instant=after)
    later = [
        write
        for write in timeline.list_completed_writes()
        if write.completed_at > goal.completed_at
    ]
    if later and is_republication(table, later[0], after):
        later = later[1:]
    pending = [
        instant
        for instant in timeline.pending()
        if (instant.action.writes_data or instant.action.is_rewrite)
        and instant.requested_at > after
    ]
    if len(later) + len(pending) > STEPS_MAX:
        count = len(later) + len(pending)
        raise InvalidInput("too many instants for one plan", count=count, most=STEPS_MAX)
    return [*pending, *later]


def _on_top(table: Table, timeline: Timeline, chosen: Sequence[Instant]) -> dict[InstantTime, str]:
    """Newer writes that brought no rows of their own, and why they go as well."""
    names = {instant.requested_at for instant in chosen}
    return {
        newer.requested_at: why
        for newer in _newer(timeline, chosen)
        if newer.requested_at not in names and (why := _why_with(table, newer, names))
    }


def _newer(timeline: Timeline, chosen: Sequence[Instant]) -> list[CompletedInstant]:
    """Than the oldest of them."""
    times = [instant.completed_at for instant in chosen if isinstance(instant, CompletedInstant)]
    writes = timeline.list_completed_writes()
    return [write for write in writes if times and write.completed_at > min(times)]


def _why_with(table: Table, instant: Instant, chosen: Collection[InstantTime]) -> str:
    if any(is_republication(table, instant, candidate) for candidate in chosen):
        return "goes as well: states one of them again for other engines"
    try:
        if is_service_commit(read_instant(table, instant)):
            return "goes as well: it rewrote files on top of them and brought no rows"
    except MalformedTable:  # What it did is unknown, so it is not rolled back without a request.
        return ""
    return ""


def _step(table: Table, instant: Instant, why: str) -> RollbackStep:
    plan = plan_rollback(table, instant.requested_at, in_restore=True)
    return RollbackStep(instant, plan, _rows(table, instant), why)


def _rows(table: Table, instant: Instant) -> int | None:
    if not (instant.is_completed and instant.action.writes_data):
        return None
    try:
        rows = read_instant(table, instant).extra_metadata.get(ROWS_KEY, "")
    except MalformedTable:  # Damaged metadata is a reason to roll back, not to refuse it.
        return None
    return int(rows) if rows.isdigit() else None


def _find_blockers(
    table: Table,
    timeline: Timeline,
    chosen: _Chosen,
    steps: Sequence[RollbackStep],
    completed: Sequence[CompletedInstant],
) -> Iterator[str]:
    for name in chosen.unknown:
        yield f"instant {name} is not on the active timeline"
    goes = {step.instant.requested_at for step in steps}
    stays = [
        newer.requested_at
        for newer in _newer(timeline, chosen.instants)
        if newer.requested_at not in goes
    ]
    if stays:
        yield f"newer writes go first; choose these too: {', '.join(reversed(stays))}"
    for step in steps:
        for blocker in step.plan.blockers:
            yield f"{step.instant.requested_at}: {blocker}"
    if completed and not stays:
        oldest = completed[0]
        if is_compaction(table, oldest):
            yield (
                f"{oldest.requested_at} is a compaction, which changes no row: "
                "choose the writes that it merged as well"
            )
        yield from find_cleaned_file_blockers(table, timeline, oldest)
    if completed:
        paths = {file.path for step in steps for file in step.plan.files}
        yield from find_plan_blockers(table, timeline, paths, besides=goes)


def _warnings(chosen: _Chosen, steps: Sequence[RollbackStep]) -> Iterator[str]:
    for name, by in chosen.missing.items():
        yield f"{name} was rolled back before, by {by}"
    if unasked := [step.instant.requested_at for step in steps if step.why]:
        yield f"not chosen, and goes as well: {', '.join(unasked)}"
    if live := [step.instant.requested_at for step in steps if step.plan.is_live]:
        yield f"live writers are stopped and lose their work: {', '.join(live)}"
    if plans := [
        step.instant.requested_at
        for step in steps
        if step.instant.action.is_rewrite and not step.instant.is_completed
    ]:
        yield f"pending plans are discarded: {', '.join(plans)}"
