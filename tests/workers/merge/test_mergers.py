"""Mergers that users register: folded oldest first, held to their contract, never guessed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from tests.workers.merge.oracle import KEY, ORDERING, Version, merged_rows
from tests.workers.merge.test_deletes import (
    ROWS,
    delete_now,
    rows,
    table,
    version,
    versions_strategy,
    without_kind,
)
from workers.errors import InvalidInput, UnsupportedTable
from workers.merge.merge import merge_into
from workers.merge.mergers import get_merger, register_merger
from workers.merge.rule import MergeRule


def adding(older: pa.Table, newer: pa.Table) -> pa.Table:
    """The newer row, with `a` summed and `b` as a trace of who came first."""
    sides: list[Any] = [older, newer]
    numbers: list[Any] = [pc.fill_null(one.column("a"), 0) for one in sides]
    trace: list[Any] = [pc.fill_null(one.column("b"), "-") for one in sides]
    names = newer.column_names
    with_a = newer.set_column(names.index("a"), "a", pc.add(*numbers))
    joined: Any = pc.binary_join_element_wise(*trace, "")
    return with_a.set_column(names.index("b"), "b", joined)


def adding_rows(older: Version, newer: Version) -> Version:
    a = (older["a"] or 0) + (newer["a"] or 0)
    return newer | {"a": a, "b": (older["b"] or "-") + (newer["b"] or "-")}


RULE = MergeRule(ORDERING, merger=adding)


@given(versions=versions_strategy)
def test_registered_merger_folds_what_the_oracle_folds(versions: list[Version]) -> None:
    rows_by_key = rows(merge_into(ROWS.empty_table(), table(versions), RULE))

    wanted = merged_rows(versions, orders=True, is_partial=False, merger=adding_rows)
    assert rows_by_key == without_kind(wanted)


def test_merger_sees_versions_oldest_first_and_nothing_from_before_a_delete() -> None:
    base = table([version("k", 9, 100, "base")]).select(ROWS.names)
    later = table([delete_now("k"), version("k", 3, 1, "c"), version("k", 2, 2, "b")])

    rows_by_key = rows(merge_into(base, later, RULE))

    assert rows_by_key == {"k": {KEY: "k", "ts": 3, "a": 3, "b": "bc"}}


def test_merger_that_loses_a_row_is_refused() -> None:
    rule = MergeRule(None, merger=lambda older, newer: newer.slice(1))

    with pytest.raises(InvalidInput, match="one row per pair"):
        merge_into(
            ROWS.empty_table(), table([version("k", 1), version("k", 2)]).select(ROWS.names), rule
        )


def test_merger_that_drops_a_column_is_refused() -> None:
    rule = MergeRule(None, merger=lambda older, newer: newer.drop_columns(["b"]))

    with pytest.raises(InvalidInput, match="changed the columns"):
        merge_into(
            ROWS.empty_table(), table([version("k", 1), version("k", 2)]).select(ROWS.names), rule
        )


def test_unknown_merger_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedTable, match="not registered") as refusal:
        get_merger("nobody-registered-this")

    assert refusal.value.values["merger"] == "nobody-registered-this"


def test_registering_twice_is_fine_and_a_second_function_of_one_name_is_not() -> None:
    register_merger("test-adding", adding)
    register_merger("test-adding", adding)

    assert get_merger("test-adding") is adding
    with pytest.raises(InvalidInput, match="has this name already"):
        register_merger("test-adding", lambda older, newer: newer)
