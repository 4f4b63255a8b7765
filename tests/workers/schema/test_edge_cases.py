"""Edge cases of concurrent schemas (requirements 2.3) that schemas alone decide, as one table.

`tests/scenarios/test_schema_edge_cases.py` has those that need a timeline.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.schema.test_conflict import optional, schema
from workers.schema.alter import DropColumn, apply_changes
from workers.schema.conflict import resolve
from workers.schema.table_schema import TableSchema
from workers.schema.verdict import SchemaConflict

ID = {"name": "id", "type": "long"}
C, N = optional("c", "string"), optional("n", "int")


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "s", "namespace": "n.r", "fields": list(fields)}


def moment(logical: str) -> dict[str, Any]:
    return optional("at", {"type": "long", "logicalType": logical})


A_INT, A_LONG, B = optional("a", "int"), optional("a", "long"), optional("b", "string")
IN_LIST = {"type": "array", "items": struct(A_INT)}
S1 = schema(ID, C)
SCHEMAS: dict[str, TableSchema | None] = {
    "-": None,
    "S1": S1,
    "S1+n": schema(ID, C, N),
    "S1+long": schema(ID, C, optional("n", "long")),
    "S1+m": schema(ID, C, optional("m", "double")),
    "S1+n+m": schema(ID, C, N, optional("m", "double")),
    "S1+m+long": schema(ID, C, optional("m", "double"), optional("n", "long")),
    "dropped": apply_changes(S1, [DropColumn("c")], pinned=["id"]),
    "lost": schema(ID),
    "dropped+n": apply_changes(schema(ID, C, N), [DropColumn("c")], pinned=["id"]),
    "renamed": schema(ID, optional("d", "string")),
    "moved": schema(C, ID),
    "moved+n": schema(C, ID, N),
    "Email": schema(ID, C, optional("Email", "string")),
    "email": schema(ID, C, optional("email", "string")),
    "must": schema(ID, {"name": "c", "type": "string"}),
    "must+n": schema(ID, {"name": "c", "type": "string"}, N),
    "relaxed+n": schema(ID, C, N),
    "needs m": schema(ID, C, {"name": "m", "type": "int"}),
    "fills m": schema(ID, C, {"name": "m", "type": "int", "default": 0}),
    "n + fills m": schema(ID, C, {"name": "m", "type": "int", "default": 0}, N),
    "struct": schema(ID, optional("s", struct(A_INT))),
    "struct.b": schema(ID, optional("s", struct(A_INT, B))),
    "struct.long": schema(ID, optional("s", struct(A_LONG))),
    "struct.long.b": schema(ID, optional("s", struct(A_LONG, B))),
    "struct.text": schema(ID, optional("s", struct(optional("a", "string")))),
    "list": schema(ID, optional("s", IN_LIST)),
    "list.b": schema(ID, optional("s", {**IN_LIST, "items": struct(A_INT, B)})),
    "list.long": schema(ID, optional("s", {**IN_LIST, "items": struct(A_LONG)})),
    "list.long.b": schema(ID, optional("s", {**IN_LIST, "items": struct(A_LONG, B)})),
    "map": schema(ID, optional("s", {"type": "map", "values": struct(A_INT)})),
    "map.b": schema(ID, optional("s", {"type": "map", "values": struct(A_INT, B)})),
    "map.long": schema(ID, optional("s", {"type": "map", "values": struct(A_LONG)})),
    "map.long.b": schema(ID, optional("s", {"type": "map", "values": struct(A_LONG, B)})),
    "utc": schema(ID, moment("timestamp-micros")),
    "local": schema(ID, moment("local-timestamp-micros")),
    "utc+n": schema(ID, moment("timestamp-micros"), N),
    "text key": schema({"name": "id", "type": "string"}, C),
    "text key+n": schema({"name": "id", "type": "string"}, C, N),
}

# start | now | writer | what the writer has values in | simple | evolvability
TABLE = """
E-01 | S1     | S1+n        | -          | c   | S1+n        | S1+n
E-02 | S1     | dropped     | -          |     | dropped     | dropped
E-20 | S1+n   | S1          | S1+n       | c n | conflict    | conflict
E-20 | S1+n   | S1          | S1+n+m     | c n | conflict    | conflict
E-20 | S1     | lost        | S1         |     | conflict    | conflict
E-21 | S1     | dropped     | S1         | c   | dropped     | conflict
E-21 | S1     | dropped     | S1         |     | dropped     | dropped
E-21 | S1     | dropped     | S1+n       | n   | conflict    | dropped+n
E-21 | S1     | dropped     | S1+n       | c n | conflict    | conflict
E-22 | S1     | renamed     | S1         | c   | conflict    | conflict
E-22 | S1     | renamed     | S1         |     | conflict    | conflict
E-22 | S1     | renamed     | S1+n       | n   | conflict    | conflict
E-23 | S1+n   | S1+long     | S1+n       | n   | S1+long     | S1+long
E-23 | S1+n   | S1+long     | S1+n+m     | m   | conflict    | S1+long+m
E-24 | S1     | moved       | S1         | c   | moved       | moved
E-24 | S1     | moved       | S1+n       | n   | conflict    | moved+n
E-24 | S1     | S1+n        | moved      | c   | conflict    | conflict
E-25 | S1     | email       | Email      | c   | conflict    | conflict
E-25 | S1     | S1          | email      | c   | email       | email
E-25 | email  | email       | Email      | c   | conflict    | conflict
E-26 | must   | S1          | must       | c   | S1          | S1
E-26 | must   | must+n      | S1         | c   | conflict    | relaxed+n
E-26 | must   | S1          | must+n     | c   | conflict    | relaxed+n
E-27 | S1     | must        | S1         | c   | conflict    | conflict
E-27 | S1     | S1+n        | must       | c   | conflict    | conflict
E-28 | S1     | needs m     | S1         | c   | conflict    | conflict
E-28 | S1     | S1+n        | needs m    | c   | conflict    | conflict
E-28 | S1     | fills m     | S1         | c   | fills m     | fills m
E-28 | S1     | fills m     | S1+n       | c   | conflict    | n + fills m
E-29 | struct | struct.b    | struct.long | s  | conflict    | struct.long.b
E-29 | struct | struct.long | struct.b   | s   | conflict    | struct.long.b
E-29 | struct | struct.b    | struct     | s   | struct.b    | struct.b
E-29 | struct | struct.text | struct.b   | s   | conflict    | conflict
E-29 | list   | list.b      | list.long  | s   | conflict    | list.long.b
E-29 | map    | map.b       | map.long   | s   | conflict    | map.long.b
E-30 | utc    | local       | utc        | at  | conflict    | conflict
E-30 | utc    | local       | utc+n      | at  | conflict    | conflict
E-30 | local  | utc+n       | local      | at  | conflict    | conflict
E-31 | S1     | text key    | S1         | c   | conflict    | conflict
E-31 | S1     | text key+n  | S1         | c   | conflict    | conflict
E-31 | S1     | S1+n        | text key   | c   | conflict    | conflict
"""
SCHEMAS["S1+long+m"] = schema(ID, C, optional("n", "long"), optional("m", "double"))


def rows() -> list[Any]:
    lines = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()]
    return [pytest.param(*line[1:], id=" ".join(line)) for line in lines]


@pytest.mark.parametrize("strategy", ["simple", "evolvability"])
@pytest.mark.parametrize(("start", "now", "writer", "written", "simple", "evolvability"), rows())
def test_edge_case(
    strategy: str,
    start: str,
    now: str,
    writer: str,
    written: str,
    simple: str,
    evolvability: str,
) -> None:
    resolution = resolve(
        SCHEMAS[start],
        SCHEMAS[now],
        SCHEMAS[writer],
        same_instant=False,
        strategy=strategy,
        pinned=["id"],
        written=written.split(),
    )

    outcome = {"simple": simple, "evolvability": evolvability}[strategy]
    wanted = SCHEMAS.get(outcome)
    if outcome == "conflict":
        assert isinstance(resolution, SchemaConflict)
    else:
        assert not isinstance(resolution, SchemaConflict), resolution
        assert resolution.schema is not None
        assert wanted is not None
        assert resolution.schema.tree == wanted.tree
        assert resolution.schema.dropped == wanted.dropped


def test_e01_lost_schema_is_carried_from_the_table_with_a_warning() -> None:
    resolution = resolve(S1, SCHEMAS["S1+n"], None, same_instant=False)

    assert not isinstance(resolution, SchemaConflict)
    assert resolution.warning == "writer has no schema; the table's was kept"


def test_e21_simple_says_which_values_are_not_read_any_more() -> None:
    resolution = resolve(S1, SCHEMAS["dropped"], S1, same_instant=False, written=["id", "c"])

    assert not isinstance(resolution, SchemaConflict)
    assert (
        resolution.warning
        == "the table dropped c meanwhile; this write's values for it are not read"
    )
