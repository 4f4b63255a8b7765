"""Verdicts on schemas in the mirror: a commit's with its instant, a loser's with the conflict."""

from __future__ import annotations

import json

import pytest

from controlplane.mirror.models import InstantRecord
from controlplane.mirror.schema_verdicts import schema_verdict
from controlplane.mirror.sync import sync_table
from controlplane.writers.conflicts import conflict_row, recent_query
from tests.controlplane.lake import Lake
from tests.support.rows_seen import ALL_ROWS
from workers.concurrency.outcome import Committed, Conflicted

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}


def test_commit_shows_what_was_merged_from_whom(lake: Lake) -> None:
    writer = lake.begin({**OSLO, "y": 1}, writer="writer", strategy="evolvability")
    rival = lake.begin({"id": "2", "ts": 1, "city": "Bonn", "x": "x"}, writer="rival")
    assert isinstance(rival.commit(), Committed)
    assert isinstance(writer.commit(), Committed)

    sync_table(lake.row)

    metadata = InstantRecord.objects.get(requested_at=writer.instant).metadata
    verdict = metadata["schema_verdict"]
    assert (verdict["mode"], verdict["case"], verdict["scenario"]) == ("evolvability", "7", 8)
    assert verdict["validation_instant"] == rival.instant
    assert [(one["path"], one["by"], one["after"]) for one in verdict["fields"]] == [
        ("x", "rival", "string?"),
        ("y", "writer", "long?"),
    ]
    assert "hoodie.schema.resolution" not in metadata["extra"]


def test_lost_conflict_shows_strategy_differences_and_advice(lake: Lake) -> None:
    writer = lake.begin({**OSLO, "y": 1}, writer="writer")
    rival = lake.begin({"id": "2", "ts": 1, "city": "Bonn", "x": "x"}, writer="rival")
    rival.commit()
    outcome = writer.commit()
    assert isinstance(outcome, Conflicted)

    sync_table(lake.row)

    (conflict,) = [conflict_row(row, ALL_ROWS) for row in recent_query(lake.row)]
    assert conflict.schemas is not None
    assert (conflict.schemas["strategy"], conflict.schemas["scenario"]) == ("simple", 8)
    assert [(one["path"], one["by"]) for one in conflict.schemas["differences"]] == [
        ("x", "rival"),
        ("y", "writer"),
    ]
    assert conflict.schemas["clashes"] == []
    assert "evolvability" in conflict.schemas["advice"]
    assert rival.instant in conflict.message
    assert writer.instant in conflict.message


@pytest.mark.parametrize("text", [None, "", "{", "[]", "7", "[" * 100_000])
def test_verdict_that_cannot_be_read_is_none(text: str | None) -> None:
    assert schema_verdict(text) == {}


def test_verdict_of_strangers_is_bounded_and_has_no_keys_of_theirs() -> None:
    field = {"path": "p" * 9_999, "kind": "added", "by": "rival\x00", "evil": "<script>"}
    text = json.dumps({"mode": "m" * 9_999, "evil": 1, "scenario": "8", "fields": [field, 3] * 999})

    verdict = schema_verdict(text)["schema_verdict"]

    assert set(verdict) == {"mode", "fields"}
    assert len(verdict["mode"]) == len(verdict["fields"][0]["path"]) == 500
    assert len(verdict["fields"]) <= 100
    assert verdict["fields"][0]["by"] == "rival"
    assert "evil" not in verdict["fields"][0]
