"""Deletes in the one merge function: those with an ordering value, and those that erase at once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.scenario_table import schema_of
from tests.workers.merge.oracle import KEY, ORDERING, Version, merged, merged_rows
from workers.merge.merge import merge, merge_into
from workers.merge.rule import MergeRule
from workers.merge.versions import DELETE, DELETE_NOW, DELETED, ROW, without_deletes

ROWS = schema_of(_hoodie_record_key=pa.string(), ts=pa.int64(), a=pa.int32(), b=pa.string())
SCHEMA = ROWS.append(pa.field(DELETED, pa.int8()))
RULES = {
    "by event time": MergeRule(ORDERING),
    "by commit": MergeRule(None),
    "partial": MergeRule(ORDERING, is_partial=True),
    "partial by commit": MergeRule(None, is_partial=True),
}
rules = pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
whole_rows = pytest.mark.parametrize("rule", [RULES["by event time"], RULES["by commit"]])


def version(
    key: str, ts: int | None, a: int | None = None, b: str | None = None, kind: int | None = ROW
) -> Version:
    return {KEY: key, "ts": ts, "a": a, "b": b, DELETED: kind}


def delete(key: str, ts: int | None) -> Version:
    return version(key, ts, kind=DELETE)


def delete_now(key: str) -> Version:
    return version(key, None, kind=DELETE_NOW)


versions_strategy = st.lists(
    st.builds(
        version,
        key=st.sampled_from("kmn"),
        ts=st.none() | st.integers(-2, 3),
        a=st.none() | st.integers(0, 9),
        b=st.none() | st.sampled_from("xyz"),
        kind=st.sampled_from([None, ROW, ROW, DELETE, DELETE_NOW]),
    ),
    max_size=14,
)


def table(versions: list[Version]) -> pa.Table:
    return pa.Table.from_pylist(versions, schema=SCHEMA)


def rows(merged_table: pa.Table) -> dict[str, Version]:
    listed: list[dict[str, Any]] = merged_table.to_pylist()
    assert len({row[KEY] for row in listed}) == len(listed), listed
    return {row[KEY]: row for row in listed}


def oracle(rule: MergeRule) -> dict[str, Any]:
    return {"orders": rule.ordering_field is not None, "is_partial": rule.is_partial}


def without_kind(rows_by_key: dict[str, Version]) -> dict[str, Version]:
    return {
        key: {name: value for name, value in row.items() if name != DELETED}
        for key, row in rows_by_key.items()
    }


@rules
@given(versions=versions_strategy)
def test_merging_deletes_is_what_the_oracle_says(rule: MergeRule, versions: list[Version]) -> None:
    rows_by_key = rows(merge(table(versions), rule))

    wanted = merged(versions, **oracle(rule))
    assert without_kind(rows_by_key) == without_kind(wanted)
    assert {key for key, row in rows_by_key.items() if row[DELETED]} == {
        key for key, row in wanted.items() if row[DELETED]
    }


@rules
@given(versions=versions_strategy, cut=st.integers(0, 14))
@example(versions=[version("k", 3, 1), delete_now("k"), version("k", 1, 2)], cut=1)
@example(versions=[version("k", 3, 1), delete("k", 2)], cut=1)
@example(versions=[version("k", 1, 1, "x"), delete("k", 2), version("k", 3, 2)], cut=1)
def test_merging_deletes_into_a_base_is_merging_them_after_its_rows(
    rule: MergeRule, versions: list[Version], cut: int
) -> None:
    base = without_deletes(merge(table(versions[:cut]), rule))
    later = versions[cut:]

    merged_table = merge_into(base, table(later), rule)

    base_rows = [row | {DELETED: ROW} for row in base.to_pylist()]
    wanted = merged_rows([*base_rows, *later], **oracle(rule))
    assert DELETED not in merged_table.column_names
    assert rows(merged_table) == without_kind(wanted)


@whole_rows
@given(versions=versions_strategy, cut=st.integers(0, 14))
def test_a_batch_of_deletes_and_rows_may_be_merged_before_it_meets_the_base(
    rule: MergeRule, versions: list[Version], cut: int
) -> None:
    """Deletes of one kind: a row after a `DELETE_NOW` of its own batch is an ordinary row."""
    kinds = [one | {DELETED: DELETE if one[DELETED] else ROW} for one in versions]
    base = without_deletes(merge(table(kinds[:cut]), rule))
    later = table(kinds[cut:])

    assert rows(merge_into(base, merge(later, rule), rule)) == rows(merge_into(base, later, rule))


@rules
def test_delete_now_takes_the_row_whatever_its_ordering_value(rule: MergeRule) -> None:
    base = without_deletes(table([version("k", 9, 1, "x"), version("m", 9, 1, "x")]))

    assert list(rows(merge_into(base, table([delete_now("k")]), rule))) == ["m"]


def test_delete_with_an_older_ordering_value_leaves_the_row() -> None:
    base = without_deletes(table([version("k", 9, 1, "x")]))

    for rule in (RULES["by event time"], RULES["partial"]):
        assert rows(merge_into(base, table([delete("k", 8)]), rule)) == rows(base)
        assert rows(merge_into(base, table([delete("k", 9)]), rule)) == {}


def test_row_after_delete_now_stands_though_its_ordering_value_is_smaller() -> None:
    base = without_deletes(table([version("k", 9, 1, "x")]))
    later = table([delete_now("k"), version("k", 2, 5, None)])

    for rule in RULES.values():
        by_key = rows(merge_into(base, later, rule))
        assert (by_key["k"]["ts"], by_key["k"]["a"], by_key["k"]["b"]) == (2, 5, None)


def test_partial_row_after_a_delete_does_not_bring_old_columns_back() -> None:
    base = without_deletes(table([version("k", 1, 1, "old")]))
    later = table([delete("k", 2), version("k", 3, 7, None)])

    rows_by_key = rows(merge_into(base, later, RULES["partial"]))

    assert rows_by_key == {"k": {KEY: "k", "ts": 3, "a": 7, "b": None}}


@rules
def test_deletes_of_keys_that_never_were_leave_no_row(rule: MergeRule) -> None:
    nothing = without_deletes(SCHEMA.empty_table())
    deletes = table([delete("k", 1), delete_now("m")])

    assert merge_into(nothing, deletes, rule).num_rows == 0
    assert merge_into(nothing, deletes, rule).schema == ROWS
    base = without_deletes(table([version("z", 1, 1, "x")]))
    assert rows(merge_into(base, deletes, rule)) == rows(base)


@rules
def test_merged_deletes_keep_the_column_that_says_so(rule: MergeRule) -> None:
    merged_table = merge(table([version("k", 1, 1), delete("k", 2), version("m", 1, 1)]), rule)

    assert merged_table.schema == SCHEMA
    assert [(row[KEY], row["ts"], bool(row[DELETED])) for row in merged_table.to_pylist()] == [
        ("k", 2, True),
        ("m", 1, False),
    ]
