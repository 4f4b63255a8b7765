"""Explanations of all rules that reject a commit, on the conflict pages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.writers.conflicts import (
    ConflictDetail,
    ConflictRow,
    ConflictRule,
    ConflictSide,
    Retry,
)
from tests.web.test_conflict_stories import write_conflict
from web.advice import explain
from web.conflicts.rules import CONDITIONS, EXPLANATIONS
from web.conflicts.story import story


def detail(row: ConflictRow) -> ConflictDetail:
    side = ConflictSide(
        instant="",
        writer="",
        stream="",
        action="",
        operation="",
        mode="",
        host="",
        pid=None,
        began_ms=None,
        ended_ms=None,
        ending="gone",
        rows=None,
        files=None,
        bytes=None,
        elsewhere=[],
        elsewhere_count=None,
        operation_id="",
    )
    return ConflictDetail(
        row=row,
        winner=side,
        loser=replace(side, instant=row.loser_instant, writer=row.loser_writer),
        table_type="MERGE_ON_READ",
        rolled_back_by="",
        markers_left=0,
        retry=Retry(attempt=1, attempts_max=1, next_instant="", next_state=""),
        others=0,
    )


def conflict_by(code: str) -> ConflictRow:
    details = {"rule": code, "keys": ["k"], "key_count": 1}
    return replace(write_conflict("commit"), details=details, message="the reason")


def test_each_rule_has_an_explanation() -> None:
    assert set(EXPLANATIONS) == set(ConflictRule)
    assert len({explanation.title for explanation in EXPLANATIONS.values()}) == len(ConflictRule)


@pytest.mark.parametrize("code", [str(rule) for rule in ConflictRule])
def test_pages_show_the_explanation_of_the_stored_code(code: str) -> None:
    explanation, row = EXPLANATIONS[ConflictRule(code)], conflict_by(code)

    page = story(detail(row)).rule

    assert (page.title, page.words) == (explanation.title, explanation.words)
    assert explain(row).rule == explanation.summary


@pytest.mark.parametrize("rule", sorted(CONDITIONS))
def test_condition_of_a_writer_names_its_reason_and_advises_no_retries(rule: ConflictRule) -> None:
    page = story(detail(conflict_by(rule)))

    assert page.sentence.endswith(": the reason.")
    assert [step.title for step in page.steps] == ["Rerun it"]


@pytest.mark.parametrize("details", [{}, {"rule": "of a later version"}, {"rule": 5}])
def test_conflict_with_an_unknown_rule_is_explained_by_its_file_groups(
    details: dict[str, object],
) -> None:
    row = replace(write_conflict("commit"), details=details)

    assert row.rule is None
    assert story(detail(row)).rule.title == "The first to complete wins"
