"""Concurrent schema evolution (RFC-82): the decision table and every combination of schemas."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from workers.schema.conflict import Party, format_conflict, resolve
from workers.schema.equality import equal
from workers.schema.table_schema import TableSchema
from workers.schema.verdict import SchemaConflict, SchemaVerdict


def schema(*fields: Any) -> TableSchema:
    avro = {"type": "record", "name": "r", "namespace": "n", "fields": list(fields)}
    return TableSchema.from_avro_json(json.dumps(avro))


def optional(name: str, avro_type: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", avro_type], "default": None}


F1 = optional("f1", "string")
S = {
    "S1": schema(F1),
    "S2": schema(F1, optional("f2", "int")),
    "S3": schema(F1, optional("f3", "boolean")),
    "S2wide": schema(F1, optional("f2", "long")),
    "S1renamed": schema(optional("f1_new", "string")),
    "S2moved": schema(optional("f2", "int"), F1),
    "S1doc": schema({**F1, "doc": "says nothing"}),
    "S1case": schema(optional("F1", "string")),
    "S1must": schema({"name": "f1", "type": "string"}),
    "S2must": schema(F1, {"name": "f2", "type": "int"}),
    "-": None,
}

# Row, the table's schema at start, at validation, the writer's -> the committed schema.
TABLE = """
scenario  start      now        writer     result
1         -          -          S1         S1
2         -          S1         S1         S1
3         -          S2         S3         conflict
4         S1         S1         S1         S1
5         S1         S1         S2         S2
6         S1         S2         S1         S2
7         S1         S2         S2         S2
8         S1         S2         S3         conflict
9         S1         -          S1         S1
9         S2         -          S2         S2
9         S1         -          S2         S2
10        S1         S2         -          S2
10        -          S1         -          S1
10        -          -          -          -
10        S1         -          -          -
11        S2         S1         S2         conflict
11        S1         S1renamed  S1         conflict
11        S2wide     S2         S2wide     conflict
11        S1         S1must     S1         conflict
11        S1         S2must     S1         conflict
11        S1         S1case     S1         conflict
12        S1         S1         S1         S1
12        S1         S1         S2         S2
E-22      S1         S1renamed  S2         conflict
E-23      S2         S2wide     S2         S2wide
E-24      S2         S2moved    S2         S2moved
E-24      S2         S2moved    S3         conflict
E-25      S1         S1         S1case     conflict
doc       S1         S2         S1doc      S2
doc       S1doc      S1         S3         S3
doc       S1         S1doc      S1         S1
both      S1         S2         S2wide     conflict
"""


def rows(table: str) -> list[Any]:
    lines = [line.split() for line in table.strip().splitlines()[1:]]
    return [pytest.param(*line[1:], id="-".join(line)) for line in lines]


@pytest.mark.parametrize(("start", "now", "writer", "result"), rows(TABLE))
def test_the_decision_table(start: str, now: str, writer: str, result: str) -> None:
    resolution = resolve(S[start], S[now], S[writer], same_instant=False)

    if result == "conflict":
        assert isinstance(resolution, SchemaConflict)
        assert (resolution.at_start, resolution.at_validation, resolution.writer) == (
            S[start],
            S[now],
            S[writer],
        )
    else:
        assert isinstance(resolution, SchemaVerdict)
        assert resolution.schema == S[result]


def pseudo_code(
    start: TableSchema | None, now: TableSchema | None, writer: TableSchema | None
) -> TableSchema | str | None:
    """RFC-82's own order of tests, with a writer that has no schema and rows 9 to 11 added."""
    if writer is None:
        return now
    if now is None:
        return writer
    if start is None:
        return writer if equal(writer, now) else "conflict"
    if equal(start, now):
        return writer
    if equal(writer, now):
        return writer
    if equal(writer, start):
        names = {field.name for field in now.tree.fields}
        kept = all(field.name in names for field in start.tree.fields)
        return now if kept else "conflict"
    return "conflict"


POOL = [
    None,
    S["S1"],
    S["S2"],
    S["S3"],
    S["S1renamed"],
    S["S1doc"],
    schema(F1, optional("f2", "int"), optional("f3", "boolean")),
]


def test_all_343_combinations_of_six_schemas_and_none_agree_with_the_rfc() -> None:
    triples = list(itertools.product(POOL, repeat=3))
    assert len(triples) == 343

    for start, now, writer in triples:
        resolution = resolve(start, now, writer, same_instant=False)
        expected = pseudo_code(start, now, writer)
        if isinstance(resolution, SchemaConflict):
            assert expected == "conflict", (start, now, writer)
        else:
            assert isinstance(expected, TableSchema | None), (start, now, writer)
            both = (resolution.schema, expected)
            assert both == (None, None) or (
                both[0] is not None and both[1] is not None and equal(both[0], both[1])
            ), (start, now, writer)


def test_no_combination_drops_a_column_that_the_writer_or_the_table_had() -> None:
    for start, now, writer in itertools.product(POOL, repeat=3):
        resolution = resolve(start, now, writer, same_instant=False)
        if (
            isinstance(resolution, SchemaConflict)
            or resolution.schema is None
            or resolution.case == "1"
        ):
            continue
        names = set(resolution.schema.field_names)
        if resolution.case == "6":
            assert writer is not None
            assert names >= set(writer.field_names)
        elif writer is not None:
            assert names == set(writer.field_names)


CASES = """
case  start  now  writer
1     -      -    S1
1     S1     -    S1
3     -      S1   S1
3     S1     S2   S2
3     S1     S1   S1
4     -      S2   S3
5     S1     S1   S2
6     S1     S2   S1
6     S2     S1   S2
7     S1     S2   S3
"""


@pytest.mark.parametrize(
    ("case", "start", "now", "writer"),
    [line.split() for line in CASES.strip().splitlines()[1:]],
)
def test_the_row_that_decided_is_named(case: str, start: str, now: str, writer: str) -> None:
    assert resolve(S[start], S[now], S[writer], same_instant=False).case == case


def test_without_a_commit_in_between_nothing_is_compared() -> None:
    resolution = resolve(S["S1"], S["S1"], S["S3"], same_instant=True)

    assert isinstance(resolution, SchemaVerdict)
    assert (resolution.case, resolution.schema, resolution.scenario) == ("2", S["S3"], 5)


def test_a_table_service_never_takes_the_schema_back_to_its_plans() -> None:
    resolution = resolve(S["S1"], S["S2"], S["S1"], same_instant=False, is_table_service=True)

    assert resolution == SchemaVerdict("0b", S["S2"])


def test_deletes_by_key_carry_the_tables_schema_and_a_lost_one_earns_a_warning() -> None:
    deletes = resolve(S["S1"], S["S2"], None, same_instant=False, deletes_only=True)
    lost = resolve(S["S1"], S["S2"], None, same_instant=False)

    assert deletes == SchemaVerdict("0d", S["S2"])
    assert isinstance(lost, SchemaVerdict)
    assert (lost.case, lost.schema) == ("0c", S["S2"])
    assert lost.warning


def test_a_schema_that_vanished_since_the_start_earns_a_warning() -> None:
    vanished = resolve(S["S1"], None, S["S1"], same_instant=False)
    first_ever = resolve(None, None, S["S1"], same_instant=False)

    assert isinstance(vanished, SchemaVerdict)
    assert vanished.warning is not None
    assert "rolled back" in vanished.warning
    assert first_ever == SchemaVerdict("1", S["S1"], scenario=1)


def test_switched_off_the_last_writer_wins_and_the_log_says_over_whom() -> None:
    quiet = resolve(S["S1"], S["S1"], S["S2"], same_instant=False, enabled=False)
    overruled = resolve(S["S1"], S["S2"], S["S3"], same_instant=False, enabled=False)

    assert quiet == SchemaVerdict("0a", S["S2"])
    assert isinstance(overruled, SchemaVerdict)
    assert overruled.schema == S["S3"]
    assert overruled.warning is not None
    assert "f3: added" in overruled.warning


def test_a_conflict_tells_a_person_what_differs() -> None:
    conflict = resolve(S["S1"], S["S2"], S["S3"], same_instant=False)

    assert isinstance(conflict, SchemaConflict)
    assert [(one.path, one.kind, one.by) for one in conflict.changes] == [
        ("f2", "added", "rival"),
        ("f3", "added", "writer"),
    ]
    message = format_conflict(
        conflict, ours=Party("20260102", "backfill"), rival=Party("20260101", "ingest")
    )
    assert message == (
        "schema conflict (RFC-82 scenario 8, strategy simple): another writer changed the table's "
        "schema in a different way. since this write began, 20260101 of ingest has f2: added as "
        "int?. this write, 20260102 of backfill, has f3: added as boolean?. table at start: "
        "(f1 string?). table now: (f1 string?, f2 int?). this writer: (f1 string?, f3 boolean?). "
        "what to do: write again on the table's schema of now "
        "(hoodie.write.num.retries.on.conflict.failures=1 does so by itself), or set "
        "hoodie.write.concurrency.schema.conflict.resolution.strategy=evolvability, under which "
        "these changes are merged"
    )


def test_columns_that_differ_only_by_case_conflict_and_the_message_says_so() -> None:
    conflict = resolve(None, S["S1"], S["S1case"], same_instant=False)

    assert isinstance(conflict, SchemaConflict)
    assert [str(one) for one in conflict.clashes] == ["F1: differs only by case from f1"]
