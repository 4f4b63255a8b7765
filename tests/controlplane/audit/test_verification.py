"""The periodic check: what is new in each round, all of it once a day, and what it found stays."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from controlplane.audit.actions import do_record
from controlplane.audit.guards import install
from controlplane.audit.models import AuditCheck, AuditEvent
from controlplane.audit.queries import load_chain_state
from controlplane.audit.verification import do_verify_round, do_verify_whole
from controlplane.monitoring.node_metrics import build_audit_metrics

Sql = Callable[..., None]
NOW = datetime(2026, 11, 23, 20, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EVENTS = "audit_auditevent"


def test_rounds_go_on_where_the_last_one_ended_and_the_whole_walk_in_parts(
    chain: list[AuditEvent],
) -> None:
    before = load_chain_state(NOW).verdict
    seen = []
    for number in range(4):
        assert do_verify_round(NOW + number * MINUTE, rows_max=4) is None
        check = AuditCheck.objects.get()
        seen.append((check.sequence, check.whole_sequence, check.whole_at))

    assert before == "quiet"
    # Of the whole walk the second part reached the end, so the rest of the day has none.
    ended = NOW + MINUTE
    assert seen == [(4, 4, None), (6, 0, ended), (6, 0, ended), (6, 0, ended)]
    state = load_chain_state(NOW + 4 * MINUTE)
    assert (state.verdict, state.verified_sequence, state.waiting) == ("good", 6, 0)
    do_verify_round(NOW + timedelta(days=1, minutes=2), rows_max=4)
    assert AuditCheck.objects.get().whole_sequence == 4


def test_an_old_row_that_changes_is_found_by_the_next_whole_walk_and_stays_until_it_is_mended(
    chain: list[AuditEvent], sql: Sql
) -> None:
    do_verify_round(NOW)
    sql(f"UPDATE {EVENTS} SET who = 'mallory' WHERE sequence = 2")
    unseen = do_verify_round(NOW + MINUTE)
    tomorrow = NOW + timedelta(days=1)
    seen = do_verify_round(tomorrow)
    sql(f"UPDATE {EVENTS} SET who = 'ada' WHERE sequence = 2")
    install(connection)
    while_bad = load_chain_state(tomorrow)
    mended = do_verify_round(tomorrow + MINUTE)

    assert (unseen, mended) == (None, None)
    assert seen is not None
    assert (while_bad.verdict, while_bad.problem_kind, while_bad.problem_sequence) == (
        "bad",
        "changed",
        2,
    )
    assert load_chain_state(tomorrow + MINUTE).verdict == "good"


def test_a_tail_that_is_gone_with_its_head_is_seen_where_it_was_verified(
    chain: list[AuditEvent], sql: Sql
) -> None:
    do_verify_round(NOW)
    sql(f"DELETE FROM {EVENTS} WHERE sequence > 4")
    sql("UPDATE audit_audithead SET sequence = 4, hash = %s", chain[3].hash)

    by_round = do_verify_round(NOW + MINUTE)
    _, by_command = do_verify_whole(NOW + MINUTE)
    again = do_verify_round(NOW + 2 * MINUTE)

    kinds = [problem and (problem.kind, problem.sequence) for problem in (by_round, by_command)]
    assert kinds == [("missing", 6), ("missing", 6)]
    assert again == by_round


def test_a_round_takes_in_what_a_crash_left_outside(chain: list[AuditEvent]) -> None:
    do_record(who="ada", what="x", subject="trips", result="done")
    assert load_chain_state(NOW).waiting == 1

    do_verify_round(NOW)

    assert load_chain_state(NOW).waiting == 0
    assert load_chain_state(NOW).verified_sequence == len(chain) + 1


@pytest.mark.usefixtures("sql")  # It removes the guards.
def test_a_check_that_stands_still_and_guards_that_are_gone_are_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    do_verify_round(NOW)
    without_guards, unwell = load_chain_state(NOW), figure(NOW)
    logged = caplog.text
    install(connection)

    assert without_guards.verdict == "bad"
    assert "audit_event_update" in without_guards.missing_guards
    assert "triggers of the audit tables are missing: audit_event_insert" in logged
    assert load_chain_state(NOW).verdict == "good"
    late = NOW + timedelta(minutes=11)
    assert load_chain_state(late).verdict == "warn"
    assert (unwell, figure(NOW), figure(late)) == (0, 1, 0)


def figure(now: datetime) -> float:
    (metric,) = build_audit_metrics(now)
    assert metric.name == "sluice_audit_well"
    return metric.samples[0].value
