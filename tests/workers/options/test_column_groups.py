"""Column groups as a table declares them: every way to say them, and every refusal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from tests.support.scenario_table import schema_of
from workers.errors import InvalidInput
from workers.options.aggregates import Aggregate, ColumnAggregate
from workers.options.column_groups import (
    DEFAULT_GROUP,
    GROUPS_MAX,
    ColumnGroup,
    GroupRule,
    group_rule,
    groups_json,
    parse_groups,
    parse_shorthand,
)
from workers.options.group_keys import (
    GROUPS_KEY,
    JOIN_KEY,
    PORTABLE_KEY,
    RETENTION_KEY,
    SHORTHAND_KEY,
)
from workers.options.group_settings import DeleteScope, Granularity, NullMode, OnLate
from workers.options.group_types import check_group_columns

A: dict[str, Any] = {"name": "a", "ordering": ["ts_a"], "columns": ["a1", "a2"]}
B: dict[str, Any] = {"name": "b", "ordering": ["ts_b"], "columns": ["b1"]}
ITEMS = pa.list_(pa.struct([pa.field("score", pa.int64())]))
TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "ts": pa.int64(),
    "c1": pa.int64(),
    "ts_a": pa.int64(),
    "a1": pa.int64(),
    "a2": pa.string(),
    "ts_b": pa.int64(),
    "b1": pa.int64(),
}


def declared(*groups: dict[str, Any]) -> tuple[ColumnGroup, ...]:
    return parse_groups(json.dumps(groups))


def rule(
    *groups: dict[str, Any], ordering: tuple[str, ...] = (), more: Mapping[str, str] | None = None
) -> GroupRule:
    properties = {GROUPS_KEY: json.dumps(groups), **(more or {})}
    parsed_rule = group_rule(properties, apart=("id",), ordering=ordering)
    assert parsed_rule is not None
    return parsed_rule


def test_a_group_is_what_was_declared() -> None:
    declaration = A | {
        "on_late": "overwrite",
        "null_mode": "keep",
        "delete": "group",
        "granularity": "column",
        "aggregates": {"a1": "sum", "a2": "collect_topn( 3 )"},
        "defaults": {"a1": 7},
    }

    assert declared(declaration) == (
        ColumnGroup(
            "a",
            ("ts_a",),
            ("a1", "a2"),
            OnLate.OVERWRITE,
            NullMode.KEEP,
            DeleteScope.GROUP,
            Granularity.COLUMN,
            {
                "a1": ColumnAggregate(Aggregate.SUM),
                "a2": ColumnAggregate(Aggregate.COLLECT_TOP_N, 3),
            },
            {"a1": 7},
        ),
    )


def test_what_is_not_said_is_the_plain_rule() -> None:
    assert declared(A) == (
        ColumnGroup(
            "a",
            ("ts_a",),
            ("a1", "a2"),
            OnLate.IGNORE,
            NullMode.OVERWRITE,
            DeleteScope.GROUP,
            Granularity.GROUP,
        ),
    )


def test_keeping_nulls_gives_each_column_an_age() -> None:
    (group,) = declared(A | {"null_mode": "keep"})

    assert group.granularity is Granularity.COLUMN


def test_one_ordering_column_may_stand_without_a_list() -> None:
    assert declared(A | {"ordering": "ts_a"}) == declared(A)


def test_the_shorthand_names_a_group_after_what_orders_it() -> None:
    assert parse_shorthand(" ts_a : a1, a2 ;ts_b:b1;") == (
        ColumnGroup("ts_a", ("ts_a",), ("a1", "a2")),
        ColumnGroup("ts_b", ("ts_b",), ("b1",)),
    )


@pytest.mark.parametrize(
    "group",
    [
        A,
        A | {"null_mode": "keep", "on_late": "overwrite", "defaults": {"a1": 1}},
        A | {"ordering": ["x", "y"], "delete": "group", "aggregates": {"a1": "collect_topn(2)"}},
        A | {"delete": "row"},
    ],
)
def test_what_is_written_down_is_read_back(group: dict[str, Any]) -> None:
    groups = declared(group, B) if "y" not in group["ordering"] else declared(group)
    default = ColumnGroup(DEFAULT_GROUP, (), ("c1",), granularity=Granularity.COLUMN)

    assert parse_groups(groups_json((default, *groups))) == groups


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "a JSON list of objects"),
        ('{"name":"a"}', "a JSON list of objects"),
        ('["a"]', "has name, ordering and columns"),
        ('[{"name":"a","ordering":["t"]}]', "has name, ordering and columns"),
    ],
)
def test_what_is_no_list_of_groups_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        parse_groups(text)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": None}, "name of a column group is text"),
        ({"name": "1a"}, "letters, digits and _"),
        ({"name": DEFAULT_GROUP}, "letters, digits and _"),
        ({"ordering": []}, "needs an ordering column"),
        ({"ordering": [""]}, "ordering is a list of column names"),
        ({"ordering": 5}, "ordering is a list of column names"),
        ({"columns": []}, "needs columns"),
        ({"columns": [1]}, "columns is a list of column names"),
        ({"columns": ["a1", "a1"]}, "belongs to one group, once"),
        ({"columns": ["a1", "ts_a"]}, "belongs to one group, once"),
        ({"columns": ["_ms_set"]}, "reserved"),
        ({"columns": ["_hoodie_record_key"]}, "reserved"),
        ({"columns": ["_sluice_deleted"]}, "reserved"),
        ({"when_late": "ignore"}, "no such setting"),
        ({"on_late": "drop"}, "unknown on_late"),
        ({"on_late": []}, "unknown on_late"),
        ({"null_mode": "skip"}, "unknown null_mode"),
        ({"delete": "table"}, "unknown delete"),
        ({"granularity": "cell"}, "unknown granularity"),
        ({"null_mode": "keep", "granularity": "group"}, "keep needs granularity=column"),
        ({"aggregates": ["a1"]}, "object with a member per column"),
        ({"aggregates": {"b1": "sum"}}, "of the group's own columns"),
        ({"aggregates": {"ts_a": "max"}}, "of the group's own columns"),
        ({"aggregates": {"a1": "mean"}}, "unknown aggregate"),
        ({"aggregates": {"a1": "collect_topn"}}, "needs a number of rows"),
        ({"aggregates": {"a1": "collect_topn(0)"}}, "at least one"),
        ({"aggregates": {"a1": "collect_topn(-1)"}}, "unknown aggregate"),
        ({"defaults": {"b1": 1}}, "of the group's own columns"),
        ({"defaults": 1}, "object with a member per column"),
        ({"delete": "row", "ordering": ["x", "y"]}, "exactly one ordering column"),
        ({"delete": "row", "aggregates": {"a1": "sum"}}, "no delete=row"),
        ({"delete": "row", "on_late": "overwrite"}, "on_late=overwrite a group has none"),
        ({"on_late": "overwrite", "aggregates": {"a1": "first"}}, "first is of the oldest"),
    ],
)
def test_a_group_that_cannot_be_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        declared(A | change)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (B | {"name": "a"}, "two column groups have one name"),
        (B | {"columns": ["a2"]}, "belongs to one group, once"),
        (B | {"ordering": ["ts_a"]}, "belongs to one group, once"),
        (B | {"ordering": ["x", "y"]}, "exactly one ordering column"),
        (B | {"on_late": "overwrite"}, "on_late=overwrite a group has none"),
        (B | {"aggregates": {"b1": "max"}}, "no delete=row"),
    ],
)
def test_groups_that_cannot_stand_together_are_refused(other: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        declared(A | {"delete": "row"}, other)


def test_more_groups_than_there_are_bits_are_refused() -> None:
    groups = [{"name": f"g{n}", "ordering": [f"t{n}"], "columns": [f"c{n}"]} for n in range(61)]

    assert len(declared(*groups[:GROUPS_MAX])) == 60
    with pytest.raises(InvalidInput, match="too many column groups"):
        declared(*groups)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (" ; ", "no group is named"),
        ("ts_a", "written `ordering:column,column`"),
        ("ts_a:", "needs columns"),
        (":a1", "letters, digits and _"),
        ("ts_a:a1;ts_b:a1", "belongs to one group, once"),
        ("ts_a:a1;ts_a:a2", "two column groups have one name"),
    ],
)
def test_a_shorthand_that_cannot_be_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        parse_shorthand(text)


def test_properties_say_either_form_and_nothing_without_groups() -> None:
    short = group_rule({SHORTHAND_KEY: "ts_a:a1,a2"}, apart=("id",), ordering=())

    assert group_rule({}, apart=("id",), ordering=()) is None
    assert group_rule({JOIN_KEY: "full"}, apart=("id",), ordering=()) is None
    assert short is not None
    assert short.declared == (ColumnGroup("ts_a", ("ts_a",), ("a1", "a2")),)
    assert rule(A, more={PORTABLE_KEY: "true", RETENTION_KEY: "12h"}) == GroupRule(
        declared(A), frozenset({"id"}), tombstone_minutes=720, is_portable=True
    )


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({GROUPS_KEY: json.dumps([A]), SHORTHAND_KEY: "ts_b:b1"}, "declared once"),
        ({JOIN_KEY: "inner"}, "only a table with column groups"),
        ({PORTABLE_KEY: "true"}, "only a table with column groups"),
        ({SHORTHAND_KEY: "ts_a:id"}, "in no group"),
        ({SHORTHAND_KEY: "ts:a1"}, "in no group"),
        ({SHORTHAND_KEY: "ts_a:a1", RETENTION_KEY: "7"}, "written 30m, 12h or 7d"),
        ({SHORTHAND_KEY: "ts_a:a1", RETENTION_KEY: "-1d"}, "written 30m, 12h or 7d"),
    ],
)
def test_properties_that_contradict_are_refused(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        group_rule(properties, apart=("id",), ordering=("ts",))


@pytest.mark.parametrize(
    ("join", "required"),
    [
        ("full", ()),
        ("left:a", ("a",)),
        ("right:a", ("b",)),
        ("inner", ("a", "b")),
        ("inner:b", ("b",)),
        ("inner:[a, b]", ("a", "b")),
    ],
)
def test_a_join_asks_for_groups(join: str, required: tuple[str, ...]) -> None:
    assert rule(A, B, more={JOIN_KEY: join}).required == required


@pytest.mark.parametrize(
    ("join", "reason"),
    [
        ("outer", "a join is full"),
        ("full:a", "a join is full"),
        ("left", "a join is full"),
        ("left:a,b", "a join is full"),
        ("right", "a join is full"),
        ("inner:c", "groups that there are not"),
    ],
)
def test_a_join_that_cannot_be_is_refused(join: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        rule(A, B, more={JOIN_KEY: join})


def test_a_right_join_is_between_two_groups() -> None:
    with pytest.raises(InvalidInput, match="between two groups"):
        rule(A, more={JOIN_KEY: "right:a"})


def test_columns_in_no_group_are_the_default_group() -> None:
    columns = ["_hoodie_record_key", "_ms_set", "_sluice_absent.c1", *TYPES]

    default, group = rule(A, ordering=("ts",)).groups(columns)

    assert default == ColumnGroup(
        DEFAULT_GROUP, ("ts",), ("c1", "ts_b", "b1"), granularity=Granularity.COLUMN
    )
    assert group.name == "a"


def check(*groups: dict[str, Any], ordering: tuple[str, ...] = (), **types: pa.DataType) -> None:
    schema = schema_of(**TYPES | types)
    check_group_columns(rule(*groups, ordering=ordering), schema)


@pytest.mark.parametrize(
    ("change", "types"),
    [
        ({}, {}),
        ({"delete": "row"}, {}),
        ({"aggregates": {"a1": "sum"}}, {"a1": pa.decimal128(38, 2)}),
        ({"aggregates": {"a1": "sum"}}, {"a1": pa.float64()}),
        ({"aggregates": {"a1": "max", "a2": "min"}}, {}),
        ({"aggregates": {"a1": "collect_topn(3)"}}, {"a1": ITEMS}),
        ({"delete": "row"}, {"ts_b": pa.int32()}),
        ({"defaults": {"a1": 1, "a2": "x"}}, {}),
        ({"defaults": {"a1": "2026-01-01"}}, {"a1": pa.date32()}),
    ],
)
def test_groups_that_fit_the_schema_pass(
    change: dict[str, Any], types: dict[str, pa.DataType]
) -> None:
    check(A | change, B, ordering=("ts",), **types)


@pytest.mark.parametrize(
    ("change", "types", "reason"),
    [
        ({"columns": ["a9"]}, {}, "not in the schema"),
        ({}, {"ts_a": ITEMS}, "values that compare"),
        ({"delete": "row"}, {"ts_b": pa.string()}, "ordering columns of one type"),
        ({"aggregates": {"a2": "sum"}}, {}, "must be able to grow"),
        ({"aggregates": {"a1": "sum"}}, {"a1": pa.int32()}, "must be able to grow"),
        ({"aggregates": {"a1": "sum"}}, {"a1": pa.decimal128(10, 2)}, "must be able to grow"),
        ({"aggregates": {"a1": "max"}}, {"a1": ITEMS}, "values that compare"),
        ({"aggregates": {"a1": "collect_topn(3)"}}, {}, "list of structs"),
        (
            {"aggregates": {"a1": "collect_topn(3)"}},
            {"a1": pa.list_(pa.struct([pa.field("score", ITEMS)]))},
            "list of structs of plain fields",
        ),
        ({"defaults": {"a1": "x"}}, {}, "must be a value of its column"),
        ({"defaults": {"a1": 1.5}}, {}, "must be a value of its column"),
        ({"defaults": {"a2": 1}}, {}, "must be a value of its column"),
    ],
)
def test_groups_that_do_not_fit_the_schema_are_refused(
    change: dict[str, Any], types: dict[str, pa.DataType], reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason):
        check(A | change, B, ordering=("ts",), **types)


def test_columns_of_groups_may_be_null() -> None:
    schema = pa.schema([*schema_of(id=pa.string(), a1=pa.int64(), a2=pa.int64())])
    schema = schema.append(pa.field("ts_a", pa.int64(), nullable=False))

    with pytest.raises(InvalidInput, match="may be null"):
        check_group_columns(rule(A), schema)


@pytest.mark.parametrize(
    ("ordering", "reason"), [((), "columns in no group have none"), (("ts", "c1"), "one age per")]
)
def test_row_deletes_need_one_age_of_loose_columns(ordering: tuple[str, ...], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        check(A | {"delete": "row"}, B, ordering=ordering)


def test_row_deletes_ask_nothing_of_loose_columns_that_there_are_not() -> None:
    schema = schema_of(id=pa.string(), ts_a=pa.int64(), a1=pa.int64(), a2=pa.int64())

    check_group_columns(rule(A | {"delete": "row"}), schema)
