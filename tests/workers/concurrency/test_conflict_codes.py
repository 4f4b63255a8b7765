"""The codes of the rules are data: they stay when functions are renamed, and are documented."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from workers.concurrency.conflicts import (
    Conflict,
    ConflictRule,
    WriteSet,
    overlapping_file_groups,
    unmergeable_file_groups,
)
from workers.concurrency.inserted_keys import build_insert_conflict
from workers.concurrency.key_partitions import build_partition_conflict
from workers.concurrency.read_keys import build_delete_conflict, build_read_conflict
from workers.concurrency.read_set import undone_schema_conflict
from workers.timeline.instant import Action, Instant, State

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "concurrency.md"
OURS, THEIRS = "20240101000000050", "20240101000000001"
CODES = {
    "overlapping_file_groups",
    "unmergeable_file_groups",
    "inserted_twice",
    "deleted_unseen",
    "changed_since_read",
    "brought_apart",
    "taken_back",
    "write_epoch",
    "check_commit",
    "plan_reset",
}
GROUP = ("p", "a")
KEYS = {GROUP: ["k"]}


def writing(instant: str) -> WriteSet:
    return WriteSet(instant, frozenset({GROUP}), replaced=frozenset({GROUP}))


def test_codes_are_those_of_stored_decisions() -> None:
    assert {str(rule) for rule in ConflictRule} == CODES


def test_document_lists_each_code() -> None:
    section = DOCUMENT.read_text().partition("## Rules and their codes")[2].partition("\n## ")[0]

    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == CODES


@pytest.mark.parametrize(
    ("conflict", "code"),
    [
        (overlapping_file_groups(writing(OURS), writing(THEIRS)), "overlapping_file_groups"),
        (unmergeable_file_groups(writing(OURS), writing(THEIRS)), "unmergeable_file_groups"),
        (build_insert_conflict(writing(OURS), writing(THEIRS), KEYS), "inserted_twice"),
        (build_delete_conflict(writing(OURS), writing(THEIRS), KEYS), "deleted_unseen"),
        (build_read_conflict(writing(OURS), writing(THEIRS), KEYS), "changed_since_read"),
        (build_partition_conflict(writing(OURS), writing(THEIRS), KEYS), "brought_apart"),
        (
            undone_schema_conflict(Instant(THEIRS, Action.COMMIT, State.INFLIGHT), "slow"),
            "taken_back",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_conflict_stores_the_code_of_its_rule(conflict: Conflict | None, code: str) -> None:
    assert conflict is not None
    assert json.loads(json.dumps(conflict.to_json()))["rule"] == code
