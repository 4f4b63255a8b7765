"""Messages of lost writes: the reason of a decision may repeat an error with values of rows."""

from __future__ import annotations

import pytest

from controlplane.mirror.conflict_facts import conflict_of_decision
from workers.timeline.decisions import RollbackDecision


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ArrowInvalid: Could not convert 'Ada Lovelace' with type str", "ArrowInvalid: "),
        ("a rival was faster: instant=20260101000000000", "a rival was faster: instant="),
    ],
)
def test_a_reason_is_mirrored_without_values_of_rows(reason: str, message: str) -> None:
    decision = RollbackDecision(
        by="takeover", nonce="n", reason=reason, conflict={"rival": "20260101000000000"}
    )

    conflict = conflict_of_decision("20260101000000001", decision, 0)

    assert conflict.message.startswith(message)
    assert "Ada" not in conflict.message
