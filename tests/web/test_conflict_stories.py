"""What a page says of a lost conflict: the fields of its schemas, the overlap."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from controlplane.writers.conflicts import ConflictRow
from web.advice import explain
from web.conflicts.words import by_partition
from web.schemas import schema_story

S = {
    "S1": {"f1": "string"},
    "S2": {"f1": "string", "f2": "int"},
    "S3": {"f1": "string", "f3": "boolean"},
}


def avro(name: str) -> dict[str, Any]:
    return {"fields": [{"name": field, "type": kind} for field, kind in S[name].items()]}


def test_case_of_rfc_82_is_the_engines_and_is_not_guessed_where_a_record_does_not_say() -> None:
    schemas = {"at_start": avro("S1"), "at_validation": avro("S2"), "writer": avro("S3")}

    decided = schema_story({**schemas, "scenario": 8, "reason": "both changed it"})
    bare = schema_story(schemas)

    assert decided.rule == "RFC-82 case 8: both changed it"
    assert (bare.scenario, bare.rule) == (None, "Incompatible schemas")


def test_schemas_are_read_from_the_text_of_a_decision_object() -> None:
    given = {"at_start": avro("S1"), "at_validation": avro("S2"), "writer": avro("S3")}

    from_text = schema_story({name: json.dumps(schema) for name, schema in given.items()})

    assert from_text == schema_story(given)
    assert [line.name for line in from_text.lines if line.disagrees] == ["f2", "f3"]


def test_fields_that_disagree_come_first_and_say_what_changed() -> None:
    story = schema_story(
        {"at_start": avro("S1"), "at_validation": avro("S2"), "writer": avro("S3")}
    )

    assert [(line.name, line.disagrees) for line in story.lines] == [
        ("f2", True),
        ("f3", True),
        ("f1", False),
    ]
    assert (story.lines[0].at_validation.change, story.lines[0].writer.change) == (
        "added",
        "absent",
    )


def test_schemas_of_a_conflict_may_be_anything() -> None:
    odd = {"fields": ["x", {"type": 1}, {"name": 5, "type": {"type": "array", "items": "int"}}]}

    story = schema_story({"at_start": odd, "at_validation": "{", "writer": "[]", "scenario": "8"})

    assert [(line.name, line.at_validation.change) for line in story.lines] == [("5", "removed")]
    assert story.scenario is None


def test_overlap_is_grouped_by_partition_and_cut_with_a_count() -> None:
    many = [("c", str(at)) for at in range(30)]

    overlap = by_partition([("b", "1"), ("a", "2"), ("a", "1"), *many])

    assert [(part.partition, part.file_ids[:2], len(part.rest)) for part in overlap] == [
        ("a", ("1", "2"), 0),
        ("b", ("1",), 0),
        ("c", ("0", "1"), 18),
    ]


def write_conflict(detected: str) -> ConflictRow:
    return ConflictRow(
        loser_instant="20261120000000001",
        loser_writer="ingest",
        winner_instant="20261120000000000",
        winner_writer="backfill",
        kind="write",
        detected=detected,
        message="",
        overlap=[("p", "1"), ("p", "2")],
        overlap_count=2,
        schemas=None,
        strategy="",
        wasted_files=2,
        wasted_bytes=2_000,
        lasted_ms=60_000,
        details={},
        decided_at=datetime(2026, 11, 20, tzinfo=UTC),
    )


def test_write_conflict_counts_its_overlap() -> None:
    assert explain(write_conflict("commit")).headline == "2 file groups in 1 partition"


def test_conflict_that_was_found_early_names_another_rule() -> None:
    early, late = explain(write_conflict("early")), explain(write_conflict("commit"))

    assert "Detected while it wrote" in early.rule
    assert "First to complete" in late.rule
