"""A walk along the chain that finds the first changed row, in bounded memory. Reads only;
`verification` stores the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from controlplane.audit.canonical import GENESIS_HASH, VERSION, digest_of, link_hash
from controlplane.audit.models import AuditEvent, AuditHead

ROWS_AT_ONCE = 1_000
"""The rows of one read from the database."""

ProblemKind = Literal["changed", "missing", "inserted", "forked", "head"]


@dataclass(frozen=True, slots=True)
class Link:
    """A position in the chain, with the hash of all rows up to it."""

    sequence: int = 0
    hash: str = GENESIS_HASH


@dataclass(frozen=True, slots=True)
class Problem:
    kind: ProblemKind
    sequence: int
    """The number of the first row that is wrong or missing."""
    sentence: str
    """A sentence without a period."""


@dataclass(frozen=True, slots=True)
class Walk:
    """The result of a walk from a link to the head, or to its limit of rows."""

    through: Link
    rows: int
    problem: Problem | None
    is_at_end: bool
    """True if no rows are left."""


def walk_chain(start: Link, rows_max: int | None = None) -> Walk:
    """Verify the row of `start` and at most so many rows after it.

    Rows that are appended during the walk are left to the next walk.
    """
    # Read before the head, which is never behind the rows.
    newest = AuditEvent.objects.exclude(sequence=None).order_by("-sequence").first()
    head = AuditHead.objects.first()
    if head is None:
        if newest is None and start.sequence == 0:
            return Walk(start, 0, None, is_at_end=True)
        sentence = "the head of the chain is missing from its table"
        return Walk(start, 0, Problem("head", start.sequence, sentence), is_at_end=False)
    if problem := _find_start_problem(start, head):
        return Walk(start, 0, problem, is_at_end=False)
    through, rows = start, 0
    for event in _load_rows_after(start, head, rows_max):
        if problem := _find_row_problem(event, through):
            return Walk(through, rows, problem, is_at_end=False)
        through, rows = Link(event.sequence or 0, event.hash), rows + 1
    if rows_max is not None and rows == rows_max and through.sequence < head.sequence:
        return Walk(through, rows, None, is_at_end=False)
    problem = _find_end_problem(through, head, newest)
    return Walk(through, rows, problem, is_at_end=problem is None)


def find_link(sequence: int) -> Link | None:
    """Return the stored link with this number, unverified; None if there is none."""
    row = AuditEvent.objects.filter(sequence=sequence).first()
    return None if row is None else Link(sequence, row.hash)


def _load_rows_after(start: Link, head: AuditHead, rows_most: int | None) -> Iterator[AuditEvent]:
    rows = AuditEvent.objects.filter(sequence__gt=start.sequence, sequence__lte=head.sequence)
    return rows.order_by("sequence", "pk")[:rows_most].iterator(ROWS_AT_ONCE)


def _find_start_problem(start: Link, head: AuditHead) -> Problem | None:
    if start.sequence == 0:
        return None
    at_start = AuditEvent.objects.filter(sequence=start.sequence).first()
    if at_start is None:
        sentence = f"row {start.sequence}, up to which the chain was verified, is missing"
        return Problem("missing", start.sequence, sentence)
    if at_start.hash != start.hash or not _is_unchanged(at_start):
        sentence = f"row {start.sequence} (id {at_start.pk}) was changed since it was verified"
        return Problem("changed", start.sequence, sentence)
    if head.sequence < start.sequence:
        sentence = (
            f"the newest row of the head is {head.sequence}, but the chain was verified up to"
            f" row {start.sequence}"
        )
        return Problem("head", head.sequence, sentence)
    return None


def _find_row_problem(event: AuditEvent, before: Link) -> Problem | None:
    sequence = event.sequence or 0
    expected = before.sequence + 1
    named = f"row {sequence} (id {event.pk})"
    if sequence == before.sequence:
        return Problem("inserted", sequence, f"{named} is a second row {sequence}")
    if sequence > expected:
        return Problem("missing", expected, _format_missing(expected, sequence - 1))
    if not _is_unchanged(event):
        return Problem(
            "changed",
            sequence,
            f"{named} was changed, or was not inserted by Sluice: its digest does not match"
            " its content",
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
            f"{named} was changed: its hash does not match its number, id, digest and predecessor",
        )
    if event.previous_hash != before.hash:
        return Problem(
            "forked",
            sequence,
            f"{named} follows another row {before.sequence} than the stored row: either of"
            " them was replaced",
        )
    return None


def _find_end_problem(through: Link, head: AuditHead, newest: AuditEvent | None) -> Problem | None:
    if through.sequence < head.sequence:
        first = through.sequence + 1
        return Problem("missing", first, f"{_format_missing(first, head.sequence)}, up to the head")
    if through.hash != head.hash:
        return Problem(
            "head",
            through.sequence,
            f"the head has another row {through.sequence} than the stored row: the row was"
            " replaced, or the head was changed",
        )
    if newest is not None and (newest.sequence or 0) > head.sequence:
        first = head.sequence + 1
        return Problem("inserted", first, f"row {first} is after the head, row {first - 1}")
    return None


def _format_missing(first: int, last: int) -> str:
    return f"row {first} is missing" if first == last else f"rows {first} to {last} are missing"


def _is_unchanged(event: AuditEvent) -> bool:
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
