"""Next steps for the owner of the failed job: only those that fit this conflict, most useful
first. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.writers.conflicts import ConflictDetail, ConflictRule
from web.conflicts.early import OPTIMISTIC, EarlyLine
from web.conflicts.rules import CONDITIONS
from web.conflicts.words import counted, inserted_keys, name_of, partitions_named
from web.schemas import SchemaStory

RETRIES = "hoodie.write.num.retries.on.conflict.failures=3"
NON_BLOCKING = "hoodie.write.concurrency.mode=NON_BLOCKING_CONCURRENCY_CONTROL"
EVOLVABILITY = "hoodie.write.concurrency.schema.conflict.resolution.strategy=evolvability"
_SERVICES = {"COMPACT": "compaction", "LOG_COMPACT": "compaction", "CLUSTER": "clustering"}
_APPENDING = frozenset({"", "UPSERT", "DELETE"})


@dataclass(frozen=True, slots=True)
class Step:
    title: str
    words: str
    options: tuple[str, ...] = ()
    """`key=value`, to be copied into the write's options."""
    page: str = ""
    """Where it is done: `operation`, `schema`, `instant <time>`, `conflict <time>`, or a service by
    name.
    """


def steps(detail: ConflictDetail, schema: SchemaStory | None, early: EarlyLine) -> tuple[Step, ...]:
    if detail.row.kind == "schema":
        return tuple(_of_schema(detail, schema))
    return tuple(_of_write(detail, early))


def _of_write(detail: ConflictDetail, early: EarlyLine) -> list[Step]:
    advised = [_retried(detail) or _again(detail)]
    if (keys := inserted_keys(detail.row)) is not None:
        advised.append(_retries(detail))
        if keys.is_of_read:
            advised.append(_all_set())
    elif detail.row.rule not in (ConflictRule.TAKEN_BACK, *CONDITIONS):
        advised.append(_retries(detail))
        advised += _non_blocking(detail)
        advised += _service(detail)
        advised += _partitions(detail)
    if early.options:
        advised.append(
            Step(
                "Detect it earlier",
                "Early detection finds such a conflict while the write still runs.",
                early.options,
            )
        )
    return advised


def _retried(detail: ConflictDetail) -> Step | None:
    """Return the step for a write that retried automatically; None if it did not."""
    retry = detail.retry
    which = f"attempt {retry.attempt} of {retry.attempts_max}"
    if retry.next_state == "committed":
        return Step(
            "Nothing: its retry committed",
            f"This was {which}; the next one, {retry.next_instant}, committed.",
            page=f"instant {retry.next_instant}",
        )
    if retry.next_state == "pending":
        return Step(
            "Wait: its retry is running",
            f"This was {which}; the next one, {retry.next_instant}, is pending.",
            page=f"instant {retry.next_instant}",
        )
    if retry.next_state == "conflicted":
        return Step(
            "Check its next attempt: it lost too",
            f"This was {which}.",
            page=f"conflict {retry.next_instant}",
        )
    return None


def _again(detail: ConflictDetail) -> Step:
    winner, page = detail.winner, "operation" if detail.loser.operation_id else ""
    if winner.ending == "pending":
        return Step(
            f"Wait until {name_of(winner)} has ended, then rerun it",
            "The winner is still writing these file groups. A rerun now would lose again.",
            page=page,
        )
    if detail.row.rule is ConflictRule.TAKEN_BACK:
        return Step(
            "Rerun it",
            "The rerun starts from the table without the commit that was rolled back.",
            page=page,
        )
    keys = inserted_keys(detail.row)
    if keys is not None and keys.is_of_read:
        return Step(
            "Rerun it",
            f"The rerun reads these rows again, with the values of {name_of(winner)}. It changes "
            "those that still match. Nothing needs cleanup.",
            page=page,
        )
    base = (
        f"the commit of {name_of(winner)}" if winner.ending == "committed" else "the current table"
    )
    clean = (
        "Nothing needs cleanup."
        if not detail.markers_left
        else "The next writer deletes its markers."
    )
    return Step("Rerun it", f"The rerun starts from {base}. {clean}", page=page)


def _retries(detail: ConflictDetail) -> Step:
    most = detail.retry.attempts_max
    if most > 1:
        return Step(
            "Increase retries",
            f"The writer tries up to {most} times; this was attempt {detail.retry.attempt}.",
            (f"hoodie.write.num.retries.on.conflict.failures={max(10, 2 * most)}",),
        )
    return Step(
        "Enable retries",
        "A rejected write then starts again from the current table, up to three times.",
        (RETRIES,),
    )


def _all_set() -> Step:
    return Step(
        "Or set every required column",
        "A statement that sets all of them writes no value that it had read. Neither does an "
        "upsert of whole rows. This rule rejects neither.",
    )


def _non_blocking(detail: ConflictDetail) -> list[Step]:
    loser, winner = detail.loser, detail.winner
    can_append = (
        detail.table_type == "MERGE_ON_READ"
        and loser.mode in ("", OPTIMISTIC)
        and winner.action in ("", "deltacommit")
        and {loser.operation.upper(), winner.operation.upper()} <= _APPENDING
    )
    if not can_append:
        return []
    return [
        Step(
            "Use non-blocking mode",
            "On this merge-on-read table both upserts can append log files to one file group. "
            "Readers merge them by the ordering field. Both writers need this mode.",
            (NON_BLOCKING,),
        )
    ]


def _service(detail: ConflictDetail) -> list[Step]:
    name = _SERVICES.get(detail.winner.operation.upper())
    if name is None:
        return []
    return [
        Step(
            f"Run {name} at another time",
            "The winner is a table service. Schedule it for a time when this job does not run.",
            page=name,
        )
    ]


def _partitions(detail: ConflictDetail) -> list[Step]:
    shared = sorted({partition for partition, _ in detail.row.overlap})
    if not any(shared) or detail.winner.operation.upper() in _SERVICES:
        return []
    apart = sorted({partition for partition, _ in detail.loser.elsewhere} - set(shared))
    if apart:
        return [
            Step(
                f"Split it: only {partitions_named(shared)} conflicted",
                f"A separate write to {partitions_named(apart)} would have committed.",
            )
        ]
    return [
        Step(
            "Separate the writers by partition",
            f"Both wrote {partitions_named(shared)}. Writes of other partitions do not conflict.",
        )
    ]


def _of_schema(detail: ConflictDetail, schema: SchemaStory | None) -> list[Step]:
    retried = _retried(detail)
    clashing = list(schema.clashing) if schema else []
    again = _again(detail)
    if clashing:
        names = ", ".join(clashing[:4]) + (" …" if len(clashing) > 4 else "")
        return [
            Step(
                f"Agree on {names} with {name_of(detail.winner)}",
                "Use one type for one name, or another name, or omit the field. An unchanged rerun "
                "is rejected again.",
            ),
            Step("Then rerun it", again.words, page=again.page),
        ]
    advised = [
        retried
        or Step(
            "Rerun it",
            "The rerun uses the table's current schema and adds its own new columns. Nothing needs "
            "cleanup.",
            page=again.page,
        ),
        _retries(detail),
    ]
    if schema is not None and schema.strategy == "simple":
        advised.append(
            Step(
                "Merge such changes",
                "The changes do not contradict each other. This strategy would have merged them.",
                (EVOLVABILITY,),
            )
        )
    return [*advised, _evolve_first(schema)]


def _evolve_first(schema: SchemaStory | None) -> Step:
    new: Sequence[str] = schema.added_by_writer if schema else ()
    named = f" Here: {', '.join(new[:4])}{' …' if len(new) > 4 else ''}." if new else ""
    return Step(
        "Or change the schema first",
        f"Add the {counted(len(new), 'new column') if new else 'new columns'} with table.alter "
        f"before the job runs.{named}",
        page="schema",
    )
