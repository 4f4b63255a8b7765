"""Walking along the chain: the first row that is not as it was written, in bounded memory. Reads
only; what a walk found is kept by `verifying`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from controlplane.audit.canonical import GENESIS_HASH, VERSION, digest_of, link_hash
from controlplane.audit.models import AuditEvent, AuditHead

ROWS_AT_ONCE = 1_000
"""Read from the database in one go."""

ProblemKind = Literal["changed", "missing", "inserted", "forked", "head"]


@dataclass(frozen=True, slots=True)
class Link:
    """A place in the chain: all up to it is what its hash says."""

    sequence: int = 0
    hash: str = GENESIS_HASH


@dataclass(frozen=True, slots=True)
class Problem:
    kind: ProblemKind
    sequence: int
    """Of the first row that is wrong, or missing."""
    sentence: str
    """What is the case, without a full stop."""


@dataclass(frozen=True, slots=True)
class Walk:
    """From a link to the head, or as far as it was to go."""

    through: Link
    rows: int
    problem: Problem | None
    is_at_end: bool
    """Whether nothing was left to look at."""


def walk(start: Link, rows_most: int | None = None) -> Walk:
    """Look at the rows behind `start`, at most so many of them, and at the row of `start` itself.

    Rows that others append meanwhile are left to the next walk.
    """
    # Before the head, which never stays behind the rows.
    newest = AuditEvent.objects.exclude(sequence=None).order_by("-sequence").first()
    head = AuditHead.objects.first()
    if head is None:
        if newest is None and start.sequence == 0:
            return Walk(start, 0, None, is_at_end=True)
        sentence = "the head of the chain is gone from its own table"
        return Walk(start, 0, Problem("head", start.sequence, sentence), is_at_end=False)
    if problem := _problem_of_start(start, head):
        return Walk(start, 0, problem, is_at_end=False)
    through, rows = start, 0
    for event in _rows_behind(start, head, rows_most):
        if problem := _problem_of_row(event, through):
            return Walk(through, rows, problem, is_at_end=False)
        through, rows = Link(event.sequence or 0, event.hash), rows + 1
    if rows_most is not None and rows == rows_most and through.sequence < head.sequence:
        return Walk(through, rows, None, is_at_end=False)
    problem = _problem_of_end(through, head, newest)
    return Walk(through, rows, problem, is_at_end=problem is None)


def link_at(sequence: int) -> Link | None:
    """The link under this number as it is stored, unchecked; None where there is none."""
    row = AuditEvent.objects.filter(sequence=sequence).first()
    return None if row is None else Link(sequence, row.hash)


def _rows_behind(start: Link, head: AuditHead, rows_most: int | None) -> Iterator[AuditEvent]:
    rows = AuditEvent.objects.filter(sequence__gt=start.sequence, sequence__lte=head.sequence)
    return rows.order_by("sequence", "pk")[:rows_most].iterator(ROWS_AT_ONCE)


def _problem_of_start(start: Link, head: AuditHead) -> Problem | None:
    if start.sequence == 0:
        return None
    at_start = AuditEvent.objects.filter(sequence=start.sequence).first()
    if at_start is None:
        sentence = f"row {start.sequence}, up to which the chain was verified, is missing"
        return Problem("missing", start.sequence, sentence)
    if at_start.hash != start.hash or not _is_as_written(at_start):
        sentence = f"row {start.sequence} (id {at_start.pk}) was changed since it was verified"
        return Problem("changed", start.sequence, sentence)
    if head.sequence < start.sequence:
        sentence = (
            f"the head says row {head.sequence} is the newest, and the chain was verified up to"
            f" row {start.sequence}"
        )
        return Problem("head", head.sequence, sentence)
    return None


def _problem_of_row(event: AuditEvent, before: Link) -> Problem | None:
    sequence = event.sequence or 0
    expected = before.sequence + 1
    named = f"row {sequence} (id {event.pk})"
    if sequence == before.sequence:
        return Problem("inserted", sequence, f"{named} stands beside another row {sequence}")
    if sequence > expected:
        return Problem("missing", expected, _missing(expected, sequence - 1))
    if not _is_as_written(event):
        return Problem(
            "changed",
            sequence,
            f"{named} was changed, or inserted by something else than Sluice: its digest is not"
            " that of its content",
        )
    own_hash = link_hash(
        sequence=sequence,
        previous_hash=event.previous_hash,
        row_id=event.pk,
        digest=event.digest,
    )
    if own_hash != event.hash:
        return Problem(
            "changed",
            sequence,
            f"{named} was changed: its hash is not that of its number, id, digest and predecessor",
        )
    if event.previous_hash != before.hash:
        return Problem(
            "forked",
            sequence,
            f"{named} follows another row {before.sequence} than the one that is stored: that one"
            " was replaced, or this one was",
        )
    return None


def _problem_of_end(through: Link, head: AuditHead, newest: AuditEvent | None) -> Problem | None:
    if through.sequence < head.sequence:
        first = through.sequence + 1
        return Problem("missing", first, f"{_missing(first, head.sequence)}, up to the head")
    if through.hash != head.hash:
        return Problem(
            "head",
            through.sequence,
            f"the head names another row {through.sequence} than the one that is stored: that one"
            " was replaced, or the head was changed",
        )
    if newest is not None and (newest.sequence or 0) > head.sequence:
        first = head.sequence + 1
        return Problem("inserted", first, f"row {first} stands behind the head, row {first - 1}")
    return None


def _missing(first: int, last: int) -> str:
    return f"row {first} is missing" if first == last else f"rows {first} to {last} are missing"


def _is_as_written(event: AuditEvent) -> bool:
    return event.version == VERSION and event.digest == digest_of(
        at=event.at,
        who=event.who,
        what=event.what,
        subject=event.object,
        reason=event.reason,
        plan_hash=event.plan_hash,
        result=event.result,
        request_id=event.request_id,
        details=event.details,
    )
