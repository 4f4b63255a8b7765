"""What the person with the failed job can do now: only what fits this conflict, most useful first.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.writers.conflicts import ConflictDetail
from web.conflicts.early import OPTIMISTIC, EarlyLine
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
    elif detail.row.details.get("rule") != "taken_back":
        advised.append(_retries(detail))
        advised += _non_blocking(detail)
        advised += _service(detail)
        advised += _partitions(detail)
    if early.options:
        advised.append(
            Step(
                "Learn of it sooner",
                "The same conflict would then be found while the write still runs.",
                early.options,
            )
        )
    return advised


def _retried(detail: ConflictDetail) -> Step | None:
    """What it did by itself since."""
    retry = detail.retry
    which = f"attempt {retry.attempt} of {retry.attempts_max}"
    if retry.next_state == "committed":
        return Step(
            "Nothing: it tried again and committed",
            f"This was {which}; the next, {retry.next_instant}, is in the table.",
            page=f"instant {retry.next_instant}",
        )
    if retry.next_state == "pending":
        return Step(
            "Wait: it tries again now",
            f"This was {which}; the next, {retry.next_instant}, is under way.",
            page=f"instant {retry.next_instant}",
        )
    if retry.next_state == "conflicted":
        return Step(
            "Look at its next attempt: that one lost too",
            f"This was {which}.",
            page=f"conflict {retry.next_instant}",
        )
    return None


def _again(detail: ConflictDetail) -> Step:
    winner, page = detail.winner, "operation" if detail.loser.operation_id else ""
    if winner.ending == "pending":
        return Step(
            f"Wait until {name_of(winner)} has ended, then run it again",
            "It is still writing these file groups: run now, and the same happens again.",
            page=page,
        )
    if detail.row.details.get("rule") == "taken_back":
        return Step(
            "Run it again",
            "It then starts from the table without the commit that was taken back.",
            page=page,
        )
    keys = inserted_keys(detail.row)
    if keys is not None and keys.is_of_read:
        return Step(
            "Run it again",
            f"It then reads these rows anew, with what {name_of(winner)} wrote, and changes those "
            "that still match. There is nothing to clean up first.",
            page=page,
        )
    base = f"what {name_of(winner)} wrote" if winner.ending == "committed" else "the present table"
    clean = (
        "There is nothing to clean up first."
        if not detail.markers_left
        else "What it left is swept by the next writer."
    )
    return Step("Run it again", f"It then starts from {base}. {clean}", page=page)


def _retries(detail: ConflictDetail) -> Step:
    most = detail.retry.attempts_max
    if most > 1:
        return Step(
            "Let it try more often",
            f"It may try {most} times by itself; this was attempt {detail.retry.attempt}.",
            (f"hoodie.write.num.retries.on.conflict.failures={max(10, 2 * most)}",),
        )
    return Step(
        "Let it retry by itself next time",
        "A refused write begins again on the fresh table, up to three times.",
        (RETRIES,),
    )


def _all_set() -> Step:
    return Step(
        "Or set every required column",
        "A statement that sets them all takes nothing along that it had read, as does an upsert of "
        "whole rows: neither ever loses by this rule.",
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
            "Let both win",
            "On this merge-on-read table upserts of both can append log files to one file group; "
            "the reader merges them by the ordering field. Both writers need it.",
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
            "The winner is a table service. Its schedule can be moved to when this job does not "
            "run.",
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
                f"Split it: only {partitions_named(shared)} met the winner",
                f"What it wrote to {partitions_named(apart)} would have gone through as a write of "
                "its own.",
            )
        ]
    return [
        Step(
            "Give each writer partitions of its own",
            f"Both wrote {partitions_named(shared)}. Writers of different partitions never meet.",
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
                "One type for one name, or another name, or leave it out. As it is the write is "
                "refused again.",
            ),
            Step("Then run it again", again.words, page=again.page),
        ]
    advised = [
        retried
        or Step(
            "Run it again",
            "It takes the table's present schema and adds its own new columns. There is nothing to "
            "clean up first.",
            page=again.page,
        ),
        _retries(detail),
    ]
    if schema is not None and schema.strategy == "simple":
        advised.append(
            Step(
                "Let such changes be merged",
                "They do not contradict each other: this strategy would have merged them.",
                (EVOLVABILITY,),
            )
        )
    return [*advised, _evolve_first(schema)]


def _evolve_first(schema: SchemaStory | None) -> Step:
    new: Sequence[str] = schema.added_by_writer if schema else ()
    named = f" Here: {', '.join(new[:4])}{' …' if len(new) > 4 else ''}." if new else ""
    return Step(
        "Or change the schema first, alone",
        f"Add the {counted(len(new), 'new column') if new else 'new columns'} with table.alter "
        f"before the job, so that no running write has to.{named}",
        page="schema",
    )
