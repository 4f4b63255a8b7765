"""Column groups in small stories: the laws MS1 to MS8, and what once went wrong."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from tests.workers.merge.group_cases import ITEMS, TABLES, Batch, GroupTable, group
from tests.workers.merge.group_oracle import DELETE, DELETE_NOW, DELETED, Version
from tests.workers.merge.test_group_merge import (
    associations,
    fold,
    fold_along,
    held,
    shown,
    written,
)
from tests.workers.merge.test_group_merge import batch as batch_of
from workers.files.meta_columns import COMMIT_TIME, RECORD_KEY
from workers.merge.group_merge import merge_groups
from workers.merge.group_state import SET, hidden_fields, to_states
from workers.merge.merge import merge_into, precombine
from workers.merge.merge_facts import MergeFacts
from workers.merge.rule import MergeRule

TWO = TABLES["whole groups"]
BY_COLUMN = GroupTable([group("a", "a1 a2", granularity="column")], {})


def commit(*rows: Version) -> list[Version]:
    return [{RECORD_KEY: "k"} | row for row in rows]


def delete(**ages: int) -> Version:
    return {DELETED: DELETE, **ages}


def states(table: GroupTable, *commits: list[Version]) -> list[pa.Table]:
    return [written(table, [batch_of(table, rows)]) for rows in commits]


def row(table: GroupTable, *commits: list[Version]) -> Version | None:
    """What the key holds in the end, however the commits are folded; None when it is gone."""
    given = states(table, *commits)
    folded_rows = [
        held(shown(table, fold_along(table, given, tree))).get("k")
        for tree in associations(0, len(given))
    ]
    assert all(one == folded_rows[0] for one in folded_rows), folded_rows
    return folded_rows[0]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("is_silent", [False, True], ids=["null is said", "column is absent"])
def test_the_counter_example_gives_ten_or_null_and_never_eleven(
    order: tuple[int, ...], is_silent: bool
) -> None:
    """Hudi gives 10.0 or 11.0 for the same commits (requirements 5.3)."""
    table = GroupTable([group("a", "a1", granularity="column")], {"a1": pa.float64()})
    newest: Version = {"ts_a": 1001} if is_silent else {"ts_a": 1001, "a1": None}
    commits = [
        commit({"ts_a": 1000, "a1": 10.0}),
        commit({"ts_a": 999, "a1": 11.0}),
        commit(newest),
    ]

    folded_row = row(table, *(commits[at] for at in order))

    assert folded_row == {"ts_a": 1001, "a1": 10.0 if is_silent else None, "present": 0b10}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_null_that_is_kept_out_does_not_let_an_older_value_in(order: tuple[int, ...]) -> None:
    """The same rows under null_mode=keep, in one batch or in three."""
    table = GroupTable([group("a", "a1", null_mode="keep")], {})
    rows: list[Version] = [
        {"ts_a": 1000, "a1": 10},
        {"ts_a": 999, "a1": 11},
        {"ts_a": 1001, "a1": None},
    ]
    wanted = {"ts_a": 1001, "a1": 10, "present": 0b10}

    assert row(table, commit(*(rows[at] for at in order))) == wanted
    assert row(table, *(commit(rows[at]) for at in order)) == wanted


def test_a_stream_changes_its_own_columns_only() -> None:
    """MS2, whatever the ages."""
    a, b = {"ts_a": 9, "a1": 1, "a2": "x"}, {"ts_b": None, "b1": 2, "b2": 3}
    first = commit({**a, "ts_b": TWO.age(["ts_b"], 3)["ts_b"], "b1": 2, "b2": 3})

    folded_row = row(TWO, first, commit({"ts_a": 10, "a1": 5, "a2": None}))

    assert folded_row == {
        "ts_a": 10,
        "a1": 5,
        "a2": None,
        "ts_b": first[0]["ts_b"],
        "b1": b["b1"],
        "b2": b["b2"],
        "present": 0b110,
    }


def test_what_is_absent_never_overwrites_and_an_explicit_null_does() -> None:
    """MS3."""
    full = commit({"ts_a": 1, "a1": 1, "a2": 2})

    absent = row(BY_COLUMN, full, commit({"ts_a": 2, "a1": 7}))
    null = row(BY_COLUMN, full, commit({"ts_a": 2, "a1": 7, "a2": None}))

    assert absent == {"ts_a": 2, "a1": 7, "a2": 2, "present": 0b10}
    assert null == {"ts_a": 2, "a1": 7, "a2": None, "present": 0b10}


def test_a_group_that_joins_later_leaves_every_cell_as_it_was() -> None:
    """MS8: states that were folded before the table knew the group."""
    declared = [group("a", "a1 a2"), group("b", "b1", granularity="column")]
    before = GroupTable(declared, {}, loose=("c1",))
    after = GroupTable([*declared, group("n", "n1", defaults={"n1": 5})], {}, loose=("c1",))
    commits = [
        commit({"ts_a": 3, "a1": 1, "a2": 2, "c1": 4}),
        commit({"ts_b": 3, "b1": 1}),
        commit(delete(ts_b=4)),
    ]
    old = fold(before, states(before, *commits))
    empty = written(after, [])
    known = pa.concat_tables([empty, old], promote_options="default")
    cells = held(shown(before, old))["k"]

    unwritten = held(shown(after, known))["k"]
    joined = held(shown(after, fold(after, [known, *states(after, commit({"ts_n": 1, "n1": 9}))])))

    assert unwritten == {**cells, "ts_n": None, "n1": 5}
    assert joined["k"] == {**cells, "ts_n": 1, "n1": 9, "present": cells["present"] | 0b1000}
    late = states(after, commit({"ts_b": 2, "b1": 8}))
    assert held(shown(after, fold(after, [known, *late])))["k"] == unwritten


def test_an_older_version_stays_away_after_a_delete_was_compacted() -> None:
    """MS6, where Hudi 1.2.0 brings the row back."""
    table = GroupTable([group("a", "a1")], {})
    commits = [
        commit({"ts_a": 10, "a1": 1}),
        commit(delete(ts_a=20)),
        commit({"ts_a": 15, "a1": 2}),
    ]

    assert row(table, *commits) is None
    assert row(table, *commits, commit({"ts_a": 21, "a1": 3})) == {
        "ts_a": 21,
        "a1": 3,
        "present": 0b10,
    }


def erased(table: GroupTable, *commits: list[Version]) -> Version | None:
    """What the key holds when it is deleted by key before the last commit; all merged at once."""
    *before, last = states(table, *commits)
    delete_now = pa.table({RECORD_KEY: ["k"], DELETED: pa.array([DELETE_NOW], pa.int8())})
    return held(shown(table, fold(table, [*before, delete_now, last]))).get("k")


def test_a_delete_by_key_leaves_what_was_deleted_deleted() -> None:
    """It took the memory of the older delete along, so that what that one kept away came back."""
    table = GroupTable([group("a", "a1"), group("b", "b1")], {})
    before = [commit({"ts_a": 10, "a1": 1, "ts_b": 10, "b1": 1}), commit(delete(ts_a=20))]

    assert erased(table, *before, commit({"ts_a": 15, "a1": 2})) is None
    later = erased(table, *before, commit({"ts_b": 1, "b1": 7}))
    assert later == {"ts_a": 20, "a1": None, "ts_b": 1, "b1": 7, "present": 0b100}
    assert erased(table, *before, commit({"ts_a": 21, "a1": 3})) == {
        "ts_a": 21,
        "a1": 3,
        "ts_b": None,
        "b1": None,
        "present": 0b10,
    }


def test_a_delete_by_key_leaves_rows_deleted_up_to_their_age() -> None:
    table = GroupTable([group("a", "a1", delete="row"), group("b", "b1")], {})
    before = [commit(delete(ts_a=20)), commit({"ts_a": 30, "a1": 1, "ts_b": 30, "b1": 1})]

    assert erased(table, *before, commit({"ts_b": 19, "b1": 2})) is None
    folded_row = erased(table, *before, commit({"ts_b": 21, "b1": 3}))
    assert folded_row == {"ts_a": None, "a1": None, "ts_b": 21, "b1": 3, "present": 0b100}


@pytest.mark.slow
def test_keys_that_are_deleted_time_and_again_begin_afresh_each_time() -> None:
    table = GroupTable([group("a", "a1 a2", granularity="column")], {})
    delete_now = pa.table({RECORD_KEY: ["k"], DELETED: pa.array([DELETE_NOW], pa.int8())})
    given = [
        one
        for age in range(1_100)  # More than Python would call itself.
        for one in (*states(table, commit({"ts_a": 2_000 - age, "a1": age})), delete_now)
    ]

    (last,) = states(table, commit({"ts_a": 1, "a2": 5}))
    folded_row = held(shown(table, fold(table, [*given, last])))["k"]

    assert folded_row == {"ts_a": 1, "a1": None, "a2": 5, "present": 0b10}


def test_a_delete_that_brings_no_loose_column_is_remembered() -> None:
    """It was forgotten, because `_default` had no columns in such a batch."""
    table = GroupTable([group("a", "a1")], {}, ordering=("ts",), loose=("c1", "c2"))

    folded_row = row(
        table, commit(delete(ts=5)), commit({"ts": 3, "c1": 1}), commit({"ts": 6, "c2": 2})
    )

    assert folded_row == {"ts": 6, "c1": None, "c2": 2, "ts_a": None, "a1": None, "present": 0b1}


def test_a_delete_that_a_later_row_of_its_batch_follows_takes_silent_columns_away() -> None:
    """They came back, as the state told only what its own columns held."""
    table = GroupTable([group("a", "a1")], {}, loose=("c1", "c2"))

    folded_row = row(
        table, commit({"c1": 1, "c2": 2}), commit({"c2": 3, DELETED: DELETE}, {"c2": 4, DELETED: 0})
    )

    assert folded_row == {"c1": None, "c2": 4, "ts_a": None, "a1": None, "present": 0b1}


def test_a_delete_takes_columns_away_where_the_later_commit_wins() -> None:
    table = GroupTable([group("a", "a1 a2", null_mode="keep", on_late="overwrite")], {})

    folded_row = row(
        table,
        commit({"ts_a": 9, "a1": 1, "a2": 2}),
        commit(delete(ts_a=1)),
        commit({"ts_a": 5, "a1": None, "a2": 3}),
    )

    assert folded_row == {"ts_a": 5, "a1": None, "a2": 3, "present": 0b10}


def test_a_list_of_the_greatest_is_cut_before_a_second_version_comes() -> None:
    table = TABLES["aggregates"]
    items = [{"score": score, "item": f"x{score}"} for score in (1, 3, 2, 3)]
    given = {"ts_a": 1, "a1": 1, "a2": 1, "a3": 1, "a4": items, "a5": 1}

    folded_row = row(table, commit(given))

    assert folded_row is not None
    assert folded_row["a4"] == [{"score": 3, "item": "x3"}, {"score": 2, "item": "x2"}]


@pytest.mark.parametrize("how", ["sum", "max", "min", "collect_topn(2)"])
def test_a_late_version_that_an_aggregate_counts_makes_the_row_of_its_commit(how: str) -> None:
    """Or an incremental read would pass over the change."""
    is_list = how.startswith("collect")
    types: dict[str, pa.DataType] = {"a1": ITEMS if is_list else pa.int64()}
    table = GroupTable([group("a", "a1 a2", aggregates={"a1": how})], types)
    value: Any = [{"score": 1, "item": "x"}] if is_list else 5
    newest, late = {"ts_a": 9, "a1": None, "a2": 9}, {"ts_a": 5, "a1": value, "a2": 1}
    first, second = states(table, commit(newest), commit(late))

    merged = fold(table, [at(first, "001"), at(second, "002")])

    assert merged.column(COMMIT_TIME).to_pylist() == ["002"]


def test_a_late_version_that_changes_nothing_leaves_the_row_to_its_commit() -> None:
    first, second = states(
        TWO, commit({"ts_a": 9, "a1": 1, "a2": "x"}), commit({"ts_a": 5, "a1": 2, "a2": "y"})
    )

    merged = fold(TWO, [at(first, "001"), at(second, "002")])

    assert merged.column(COMMIT_TIME).to_pylist() == ["001"]


def at(rows: pa.Table, instant: str) -> pa.Table:
    return rows.append_column(COMMIT_TIME, pa.array([instant] * rows.num_rows))


def test_a_batch_that_comes_again_counts_twice_in_a_sum_only() -> None:
    """Why sums need a sink that delivers once."""
    table = TABLES["sums"]
    twice = [commit({"ts_a": 1, "a1": 4, "a2": 5})] * 2

    assert row(table, *twice) == {
        "ts_a": 1,
        "a1": 8,
        "a2": 5,
        "ts_b": None,
        "b1": None,
        "present": 0b10,
    }


def test_facts_count_what_came_late_and_what_was_tied() -> None:
    table = GroupTable([group("a", "a1")], {})
    ages = [7, 3, 9, 9, 1]
    versions = pa.concat_tables(states(table, *(commit({"ts_a": n, "a1": n}) for n in ages)))
    facts = MergeFacts()

    merge_groups(versions, table.column_groups, facts)

    assert (facts.late["a"], facts.tied["a"]) == (2, 1)


def test_a_row_that_brings_no_age_of_any_group_leaves_no_row() -> None:
    assert row(TWO, commit({"ts_a": None, "a1": 5, "a2": "x"})) is None


def test_no_versions_merge_to_none() -> None:
    empty = written(TWO, [])

    assert merge_groups(empty, TWO.column_groups).equals(empty)
    rule = MergeRule(None, groups=TWO.rule)
    assert merge_into(empty, empty, rule).equals(empty)
    some = states(TWO, commit({"ts_a": 1, "a1": 1, "a2": "x"}))[0]
    assert merge_into(empty, some, rule).equals(some)
    assert merge_into(some, empty, rule).equals(some)


def test_a_projection_has_the_same_values_as_the_whole_row() -> None:
    """Ages are read whatever is asked for; the versions of other columns are not."""
    commits = [
        commit({"ts_a": 3, "a1": 1, "a2": 2}),
        commit({"ts_a": 5, "a2": 4}),
        commit(delete(ts_a=4)),
    ]
    given = states(BY_COLUMN, *commits)
    whole = held(shown(BY_COLUMN, fold(BY_COLUMN, given)))["k"]
    columns = [RECORD_KEY, "ts_a", "a2"]
    hidden = [one.name for one in hidden_fields(BY_COLUMN.column_groups, BY_COLUMN.schema, columns)]

    narrow = fold(BY_COLUMN, [one.select([*columns, *hidden]) for one in given])

    assert "_ms_v0_a1" not in hidden
    assert held(shown(BY_COLUMN, narrow))["k"] == {n: whole[n] for n in ("ts_a", "a2", "present")}


def test_hidden_columns_of_a_state_are_those_that_are_foretold() -> None:
    """A reader asks files for them by name."""
    for table in TABLES.values():
        rows = pa.table(
            {name: pa.nulls(1, table.schema.field(name).type) for name in table.schema.names}
        )
        groups = table.column_groups
        made = to_states(rows, groups, table.schema.names)

        hidden = hidden_fields(groups, table.schema)
        assert [made.schema.field(one.name).type for one in hidden] == [one.type for one in hidden]
        assert {n for n in made.column_names if n not in rows.column_names} == {
            one.name for one in hidden
        }


def test_a_settled_batch_has_one_state_per_key() -> None:
    table = GroupTable([group("a", "a1")], {})
    schema = table.schema
    rows = [
        {RECORD_KEY: key, "ts_a": age, "a1": age} for key, age in [("k", 2), ("m", 1), ("k", 1)]
    ]

    settled_rows = precombine(
        pa.Table.from_pylist(rows, schema=schema), MergeRule(None, groups=table.rule)
    )

    assert settled_rows.select([RECORD_KEY, "a1", SET]).to_pylist() == [
        {RECORD_KEY: "k", "a1": 2, SET: 0b10},
        {RECORD_KEY: "m", "a1": 1, SET: 0b10},
    ]


def test_batches_of_a_story_bring_the_same_columns() -> None:
    """What the stories rely on."""
    assert batch_of(BY_COLUMN, commit({"ts_a": 1}, {"a2": 2})) == Batch(
        ("ts_a", "a2"),
        (
            {RECORD_KEY: "k", "ts_a": 1, "a2": None},
            {RECORD_KEY: "k", "ts_a": None, "a2": 2},
        ),
    )
