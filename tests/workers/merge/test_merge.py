"""The one merge function against a row-by-row oracle, and the laws that every caller relies on."""

from __future__ import annotations

import itertools
import random
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.scenario_table import schema_of
from tests.workers.merge.oracle import KEY, ORDERING, Version, merged
from workers.merge.merge import merge, merge_into, precombine
from workers.merge.rule import MergeRule
from workers.merge.versions import (
    DELETE,
    DELETE_NOW,
    DELETED_FIELD,
    ROW,
    are_rising,
    without_deletes,
)

SCHEMA = schema_of(
    _hoodie_record_key=pa.string(),
    _hoodie_commit_seqno=pa.string(),
    ts=pa.int64(),
    a=pa.int32(),
    b=pa.string(),
)
RULES = {
    "by event time": MergeRule(ORDERING),
    "by commit": MergeRule(None),
    "partial": MergeRule(ORDERING, is_partial=True),
    "partial by commit": MergeRule(None, is_partial=True),
}
rules = pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))


def version(key: str, ts: int | None, a: int | None, b: str | None, seqno: str = "s") -> Version:
    return {KEY: key, "_hoodie_commit_seqno": seqno, "ts": ts, "a": a, "b": b}


versions_strategy = st.lists(
    st.builds(
        version,
        key=st.sampled_from("kmn"),
        ts=st.none() | st.integers(-2, 3),
        a=st.none() | st.integers(0, 9),
        b=st.none() | st.sampled_from("xyz"),
        seqno=st.sampled_from("12"),
    ),
    max_size=14,
)


def table(versions: list[Version], chunks: int = 1) -> pa.Table:
    whole = pa.Table.from_pylist(versions, schema=SCHEMA)
    size = max(1, -(-whole.num_rows // chunks))
    parts = [whole.slice(at, size) for at in range(0, whole.num_rows, size)]
    return pa.concat_tables([SCHEMA.empty_table(), *parts])


def rows(merged_table: pa.Table) -> dict[str, Version]:
    listed: list[dict[str, Any]] = merged_table.to_pylist()
    assert len({row[KEY] for row in listed}) == len(listed), listed
    return {row[KEY]: row for row in listed}


def expected(versions: list[Version], rule: MergeRule) -> dict[str, Version]:
    wanted = merged(versions, orders=rule.ordering_field is not None, is_partial=rule.is_partial)
    if rule.is_partial:  # Meta columns are those of the newest version, whole.
        whole = merged(versions, orders=rule.ordering_field is not None, is_partial=False)
        for key, row in wanted.items():
            row["_hoodie_commit_seqno"] = whole[key]["_hoodie_commit_seqno"]
    return wanted


@rules
@given(versions=versions_strategy, chunks=st.integers(1, 4))
def test_merging_is_what_the_oracle_says(
    rule: MergeRule, versions: list[Version], chunks: int
) -> None:
    assert rows(merge(table(versions, chunks), rule)) == expected(versions, rule)


@rules
@given(versions=versions_strategy)
def test_schema_and_the_order_of_first_appearance_stay(
    rule: MergeRule, versions: list[Version]
) -> None:
    merged_table = merge(table(versions), rule)

    assert merged_table.schema == SCHEMA
    assert merged_table.column(KEY).to_pylist() == list(dict.fromkeys(one[KEY] for one in versions))


@rules
@given(versions=versions_strategy, cut=st.integers(0, 14))
def test_merging_into_a_base_is_merging_all_of_it(
    rule: MergeRule, versions: list[Version], cut: int
) -> None:
    """A base holds one row per key; everything after it is a log, a batch or both."""
    base, newer = merge(table(versions[:cut]), rule), table(versions[cut:])

    into = rows(merge_into(base, newer, rule))

    assert into == rows(merge(pa.concat_tables([base, newer]), rule))


@pytest.mark.parametrize("rule", [RULES["by event time"], RULES["by commit"]])
@given(versions=versions_strategy, cuts=st.lists(st.integers(0, 14), max_size=4))
def test_any_batching_gives_the_same_rows(
    rule: MergeRule, versions: list[Version], cuts: list[int]
) -> None:
    assert rows(in_batches(versions, cuts, rule)) == rows(merge(table(versions), rule))


@given(versions=versions_strategy, cuts=st.lists(st.integers(0, 14), max_size=4))
@example(
    versions=[version("k", 0, 1, None), version("k", 0, None, "x"), version("k", 0, 2, None)],
    cuts=[1, 2],
)
def test_any_batching_of_partial_rows_with_one_ordering_value_gives_the_same_rows(
    versions: list[Version], cuts: list[int]
) -> None:
    """What three streams of one request send."""
    rule, equal = RULES["partial"], [one | {"ts": 5} for one in versions]

    assert rows(in_batches(equal, cuts, rule)) == rows(merge(table(equal), rule))


@pytest.mark.parametrize("order", [1, -1], ids=["older first", "younger first"])
@pytest.mark.parametrize("cuts", [[], [1]], ids=["one batch", "two batches"])
def test_partial_rows_of_different_ages_do_not_depend_on_batches(
    cuts: list[int], order: int
) -> None:
    """Hudi's own bug (#8579, case H3): base (1000, 10), then (999, 11) and (1001, null)."""
    base = version("k", 1000, 10, None)
    updates = [version("k", 999, 11, None), version("k", 1001, None, None)][::order]

    merged_table = in_batches([base, *updates], [1, *(1 + cut for cut in cuts)], RULES["partial"])

    assert rows(merged_table)["k"] == version("k", 1001, 10, None)


def in_batches(versions: list[Version], cuts: list[int], rule: MergeRule) -> pa.Table:
    """Each batch settled by its writer, then one after the other into what stands."""
    merged_table = SCHEMA.empty_table()
    for batch in batches(table(versions), cuts, rule):
        merged_table = merge_into(merged_table, batch, rule)
    return merged_table


def batches(versions: pa.Table, cuts: list[int], rule: MergeRule) -> list[pa.Table]:
    count = versions.num_rows
    edges = sorted({0, count, *(cut for cut in cuts if cut < count)})
    return [
        precombine(versions.slice(start, end - start), rule)
        for start, end in itertools.pairwise(edges)
    ]


@rules
@given(
    versions=versions_strategy,
    are_deletes=st.lists(st.booleans(), min_size=14, max_size=14),
    cuts=st.lists(st.integers(0, 14), max_size=4),
)
def test_batches_in_logs_are_as_good_as_the_versions_that_they_settled(
    rule: MergeRule, versions: list[Version], are_deletes: list[bool], cuts: list[int]
) -> None:
    """Whatever their ages, and with deletes among them: the logs of a slice are merged at once.

    A batch's deletes compete by ordering value where the table has one.
    """
    delete = DELETE_NOW if rule.ordering_field is None else DELETE
    whole = with_kinds(table(versions), [delete if one else ROW for one in are_deletes])

    merged_logs = merge(pa.concat_tables([whole.slice(0, 0), *batches(whole, cuts, rule)]), rule)

    assert rows(without_deletes(merged_logs)) == rows(without_deletes(merge(whole, rule)))


def with_kinds(versions: pa.Table, kinds: list[int]) -> pa.Table:
    return versions.append_column(DELETED_FIELD, pa.array(kinds[: versions.num_rows], pa.int8()))


@pytest.mark.parametrize("rule", [RULES["by event time"], RULES["partial"]])
@given(versions=versions_strategy, seed=st.integers(0, 2**16))
def test_order_of_arrival_does_not_matter_where_no_two_orderings_of_a_key_are_equal(
    rule: MergeRule, versions: list[Version], seed: int
) -> None:
    distinct = [one | {"ts": number} for number, one in enumerate(versions)]
    shuffled = random.Random(seed).sample(distinct, len(distinct))

    assert rows(merge(table(shuffled), rule)) == rows(merge(table(distinct), rule))


@given(versions=versions_strategy, seed=st.integers(0, 2**16))
def test_streams_with_columns_of_their_own_may_arrive_in_any_order(
    versions: list[Version], seed: int
) -> None:
    """Equal ordering values tie, but no two streams write the same column."""
    by_stream: dict[tuple[str, str], Version] = {}
    for row in versions:
        by_stream[row[KEY], "a"] = version(row[KEY], 1, row["a"], None)
        by_stream[row[KEY], "b"] = version(row[KEY], 1, None, row["b"])
    streams = list(by_stream.values())
    shuffled = random.Random(seed).sample(streams, len(streams))

    assert rows(merge(table(shuffled), RULES["partial"])) == rows(
        merge(table(streams), RULES["partial"])
    )


@rules
@given(versions=versions_strategy)
def test_replaying_all_of_it_changes_nothing(rule: MergeRule, versions: list[Version]) -> None:
    once = merge(table(versions), rule)

    assert rows(merge(pa.concat_tables([once, once]), rule)) == rows(once)


@rules
@given(versions=versions_strategy)
def test_replaying_the_last_version_changes_nothing(
    rule: MergeRule, versions: list[Version]
) -> None:
    again = [*versions, *versions[-1:]]

    assert rows(merge(table(again), rule)) == rows(merge(table(versions), rule))


def test_of_equal_orderings_the_later_one_stands() -> None:
    rows_by_key = rows(
        merge(table([version("k", 1, 1, "x"), version("k", 1, 2, None)]), RULES["by event time"])
    )

    assert rows_by_key["k"]["a"] == 2
    assert rows_by_key["k"]["b"] is None


def test_partial_null_keeps_what_stands_and_a_value_replaces_it() -> None:
    rows_by_key = rows(
        merge(table([version("k", 1, 1, "x"), version("k", 2, 2, None)]), RULES["partial"])
    )

    assert (rows_by_key["k"]["a"], rows_by_key["k"]["b"], rows_by_key["k"]["ts"]) == (2, "x", 2)


def test_partial_older_value_fills_a_hole_only() -> None:
    rows_by_key = rows(
        merge(table([version("k", 5, 1, None), version("k", 2, 2, "x")]), RULES["partial"])
    )

    assert (rows_by_key["k"]["a"], rows_by_key["k"]["b"], rows_by_key["k"]["ts"]) == (1, "x", 5)


def test_untouched_rows_of_a_base_are_passed_on_as_they_stand() -> None:
    base = table([version(f"k{n}", n, n, "x") for n in range(100)])

    merged_table = merge_into(base, table([version("k7", 100, -1, "y")]), RULES["by event time"])

    assert merged_table.num_rows == 100
    assert [row for row in merged_table.to_pylist() if row[KEY] != "k7"] == [
        row for row in base.to_pylist() if row[KEY] != "k7"
    ]


@rules
def test_nothing_merged_is_nothing(rule: MergeRule) -> None:
    empty = SCHEMA.empty_table()

    assert merge(empty, rule).num_rows == 0
    assert merge_into(empty, empty, rule).num_rows == 0
    assert merge_into(table([version("k", 1, 1, "x")]), empty, rule).num_rows == 1


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (pa.string(), "2024-01-09", "2024-01-10"),
        (pa.float64(), 1.5, 1e300),
        (pa.timestamp("us", "UTC"), 1, 2),
        (pa.date32(), date(2024, 1, 9), date(2024, 1, 10)),
        (pa.decimal128(20, 2), Decimal("1.10"), Decimal("10.01")),
        (pa.bool_(), False, True),
        (pa.int32(), -1, 0),
    ],
    ids=str,
)
def test_ordering_values_compare_by_their_type(
    kind: pa.DataType, low: object, high: object
) -> None:
    versions = pa.table(
        {KEY: ["k"] * 3, "ts": pa.array([high, low, None], kind), "a": ["high", "low", "null"]}
    )

    assert merge(versions, MergeRule("ts")).column("a").to_pylist() == ["high"]
    assert merge(versions.slice(1), MergeRule("ts")).column("a").to_pylist() == ["low"]


def test_a_hundred_thousand_versions_merge_as_the_oracle_says() -> None:
    chance = random.Random(7)
    versions = [
        version(f"k{chance.randrange(20_000)}", chance.randrange(5), n, None)
        for n in range(100_000)
    ]

    merged_table = merge(table(versions, chunks=7), RULES["by event time"])

    assert rows(merged_table) == expected(versions, RULES["by event time"])


@given(st.lists(st.text(max_size=3), max_size=6), st.integers(0, 6))
@example(["a", "a"], 1)
@example(["\uffff", "\U00010000"], 0)
def test_keys_are_rising_only_where_none_stands_twice(keys: list[str], cut: int) -> None:
    chunks = [pa.array(keys[:cut], pa.string()), pa.array(keys[cut:], pa.string())]

    is_rising = are_rising(pa.chunked_array(chunks))

    in_bytes = [key.encode() for key in keys]
    assert is_rising == (in_bytes == sorted(set(in_bytes)))
