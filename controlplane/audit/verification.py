"""Periodic verification of the chain: new rows in every round, and the whole chain once a day, a
part in every round. A problem is kept until a walk through the whole chain finds none.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import connection

from controlplane.audit.actions import do_append_to_chain
from controlplane.audit.chain_walk import Link, Problem, Walk, walk_chain
from controlplane.audit.guards import find_missing_triggers
from controlplane.audit.models import ONLY, AuditCheck

ROUND_ROWS = 20_000
"""The maximum of new rows, and of old rows, in a round: about one second each."""
WHOLE_EVERY = timedelta(days=1)

log = logging.getLogger(__name__)


def do_verify_round(now: datetime, rows_max: int = ROUND_ROWS) -> Problem | None:
    """Append waiting rows, verify new rows and the next part of a whole walk that is due.

    Return the problem of this round, or None. Raises DatabaseError.
    """
    do_append_to_chain()
    check, _ = AuditCheck.objects.get_or_create(pk=ONLY)
    newest = _walk_new_rows(check, rows_max)
    problem = newest.problem
    if problem is None and _is_whole_walk_due(check, now):
        part = walk_chain(Link(check.whole_sequence, check.whole_hash), rows_max)
        problem = part.problem
        _store_whole_walk(check, part, now)
    _store_result(check, problem, now)
    if missing := find_missing_triggers(connection):
        log.error("triggers of the audit tables are missing: %s", ", ".join(missing))
    return problem


def do_verify_whole(now: datetime) -> tuple[Walk, Problem | None]:
    """Verify the whole chain at once and store the result. Return the walk and its problem.

    Raises DatabaseError.
    """
    do_append_to_chain()
    check, _ = AuditCheck.objects.get_or_create(pk=ONLY)
    # This also finds a tail that was deleted together with the head after a verification.
    newest = _walk_new_rows(check, None)
    whole = walk_chain(Link())
    problem = whole.problem or newest.problem
    if problem is None:
        _store_whole_walk(check, whole, now)
    _store_result(check, problem, now)
    return whole, problem


def _walk_new_rows(check: AuditCheck, rows_most: int | None) -> Walk:
    newest = walk_chain(Link(check.sequence, check.hash), rows_most)
    check.sequence, check.hash = newest.through.sequence, newest.through.hash
    return newest


def _is_whole_walk_due(check: AuditCheck, now: datetime) -> bool:
    is_under_way = check.whole_sequence > 0
    is_old = check.whole_at is None or now - check.whole_at >= WHOLE_EVERY
    return is_under_way or is_old or bool(check.problem)


def _store_whole_walk(check: AuditCheck, part: Walk, now: datetime) -> None:
    """Store the start of the next part: after this one, or the first row if the walk has ended."""
    is_over = part.is_at_end or part.problem is not None
    next_start = Link() if is_over else part.through
    check.whole_sequence, check.whole_hash = next_start.sequence, next_start.hash
    if part.is_at_end:
        check.whole_at = now
        check.problem, check.problem_kind, check.problem_sequence = "", "", None


def _store_result(check: AuditCheck, problem: Problem | None, now: datetime) -> None:
    if problem is not None:
        log.error("the audit log has been changed: kind=%s: %s", problem.kind, problem.sentence)
        check.problem, check.problem_kind = problem.sentence, problem.kind
        check.problem_sequence = problem.sequence
    else:
        log.info("audit verified: sequence=%s hash=%s", check.sequence, check.hash)
    check.checked_at = now
    check.save()
