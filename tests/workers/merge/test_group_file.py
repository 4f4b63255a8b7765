"""What a base file keeps of states: rows that are there, deleted keys in the footer, the join."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest

from tests.workers.merge.group_cases import GroupTable, group
from tests.workers.merge.group_oracle import DELETE, DELETED, Version
from tests.workers.merge.test_group_merge import batch, fold, written
from workers.clock import format_instant
from workers.errors import MalformedTable
from workers.files.meta_columns import COMMIT_TIME, RECORD_KEY
from workers.merge.group_file import (
    TOMBSTONES_KEY,
    StatesOfFile,
    is_matched,
    read_tombstones,
    to_visible_rows,
    with_defaults,
)
from workers.merge.group_state import is_hidden
from workers.options.column_groups import GroupRule

DAY_MS = 24 * 3600 * 1000
NOW_MS = 1_800_000_000_000
NOW = format_instant(NOW_MS)
TABLE = GroupTable(
    [
        group("a", "a1", defaults={"a1": 7}),
        group("b", "b1", granularity="column", defaults={"b1": "none"}),
    ],
    {"b1": pa.string()},
)


def states(*rows: Version, instant: str = NOW) -> pa.Table:
    """Of one commit for each row."""
    made = fold(TABLE, [written(TABLE, [batch(TABLE, [one])]) for one in rows])
    return made.append_column(COMMIT_TIME, pa.array([instant] * made.num_rows))


ALIVE: Version = {RECORD_KEY: "k", "ts_a": 1, "a1": 1}
GONE: list[Version] = [
    {RECORD_KEY: "m", "ts_a": 1, "a1": 1},
    {RECORD_KEY: "m", "ts_a": 2, DELETED: DELETE},
]


def split(rule: GroupRule, *parts: pa.Table) -> tuple[list[str], StatesOfFile]:
    file = StatesOfFile(rule, NOW)
    rows = [file.rows(part) for part in parts]
    keys: list[Any] = pa.concat_tables(rows).column(RECORD_KEY).to_pylist()
    return keys, file


def test_deleted_keys_go_to_the_footer_and_come_back_as_they_were() -> None:
    parts = [states(ALIVE, *GONE), states(*({**one, RECORD_KEY: "n"} for one in GONE))]

    rows, file = split(TABLE.rule, *parts)

    assert (rows, file.count) == (["k"], 2)
    tombstones = read_tombstones(file.footer()[TOMBSTONES_KEY], path="x.parquet")
    dead = pa.concat_tables([parts[0].slice(1), parts[1]])
    assert tombstones.equals(dead)


def test_an_older_version_stays_away_because_of_what_a_footer_remembers() -> None:
    _, file = split(TABLE.rule, states(*GONE))
    dead = read_tombstones(file.footer()[TOMBSTONES_KEY], path="x.parquet").drop_columns(
        [COMMIT_TIME]
    )
    late: Version = {RECORD_KEY: "m", "ts_a": 1, "a1": 9}

    merged = fold(TABLE, [dead, written(TABLE, [batch(TABLE, [late])])])

    assert to_visible_rows(merged, TABLE.rule).num_rows == 0


def test_a_footer_without_deleted_keys_says_nothing() -> None:
    rows, file = split(TABLE.rule, states(ALIVE))

    assert (rows, file.footer()) == (["k"], {})


@pytest.mark.parametrize(
    ("age_ms", "is_kept"),
    [(0, True), (7 * DAY_MS, True), (7 * DAY_MS + 1, False), (70 * DAY_MS, False)],
)
def test_deleted_keys_are_remembered_for_the_retention(age_ms: int, is_kept: bool) -> None:
    old = states(*GONE, instant=format_instant(NOW_MS - age_ms))

    rows, file = split(TABLE.rule, old)

    assert (rows, file.count, bool(file.footer())) == ([], int(is_kept), is_kept)


def test_a_group_that_is_deleted_in_a_row_that_is_there_is_never_forgotten() -> None:
    rows: list[Version] = [
        {RECORD_KEY: "k", "ts_a": 5, DELETED: DELETE},
        {RECORD_KEY: "k", "ts_b": 1, "b1": "x"},
    ]
    old = states(*rows, instant=format_instant(NOW_MS - 70 * DAY_MS))

    kept = StatesOfFile(TABLE.rule, NOW).rows(old).drop_columns([COMMIT_TIME])

    late = written(TABLE, [batch(TABLE, [{RECORD_KEY: "k", "ts_a": 4, "a1": 3}])])
    assert to_visible_rows(fold(TABLE, [kept, late]), TABLE.rule).to_pylist() == [
        {RECORD_KEY: "k", "ts_a": 5, "a1": None, "ts_b": 1, "b1": "x"}
    ]


@pytest.mark.parametrize(
    "text",
    ["", "!", base64.b64encode(b"no stream").decode(), "cut"],
    ids=["empty", "no base64", "no Arrow", "cut off"],
)
def test_damaged_tombstones_are_told_with_their_file(text: str) -> None:
    if text == "cut":
        _, file = split(TABLE.rule, states(*GONE))
        whole = base64.b64decode(file.footer()[TOMBSTONES_KEY])
        text = base64.b64encode(whole[: len(whole) // 2]).decode()

    with pytest.raises(MalformedTable, match=r"x\.parquet"):
        read_tombstones(text, path="x.parquet")


def test_groups_that_were_never_written_hold_their_defaults() -> None:
    deleted: Version = {RECORD_KEY: "m", "ts_a": 2, DELETED: DELETE}
    rows = states(ALIVE, deleted, {RECORD_KEY: "m", "ts_b": 1, "b1": None})

    finished_rows = to_visible_rows(rows.drop_columns([COMMIT_TIME]), TABLE.rule).to_pylist()

    assert finished_rows == [
        {RECORD_KEY: "k", "ts_a": 1, "a1": 1, "ts_b": None, "b1": "none"},
        {RECORD_KEY: "m", "ts_a": 2, "a1": None, "ts_b": 1, "b1": None},
    ]


def test_a_default_in_a_file_gives_way_like_a_cell_that_was_never_written() -> None:
    stored = with_defaults(states(ALIVE).drop_columns([COMMIT_TIME]), TABLE.rule)
    newer = written(TABLE, [batch(TABLE, [{RECORD_KEY: "k", "ts_b": 1}])])
    aged = written(TABLE, [batch(TABLE, [{**ALIVE, "ts_a": 2}])])

    assert stored.column("b1").to_pylist() == ["none"]
    assert fold(TABLE, [stored, newer]).column("b1").to_pylist() == [None]
    assert to_visible_rows(fold(TABLE, [stored, aged]), TABLE.rule).column("b1").to_pylist() == [
        "none"
    ]


JOINED: dict[str, list[Version]] = {
    "a": [{"ts_a": 1, "a1": 1}],
    "b": [{"ts_b": 1, "b1": "x"}],
    "ab": [{"ts_a": 1, "a1": 1, "ts_b": 1, "b1": "x"}],
    "b without a": [{"ts_a": 1, DELETED: DELETE}, {"ts_b": 1, "b1": "x"}],
}


@pytest.mark.parametrize(
    ("required", "seen"),
    [
        ((), ["a", "b", "ab", "b without a"]),
        (("a",), ["a", "ab"]),
        (("b",), ["b", "ab", "b without a"]),
        (("a", "b"), ["ab"]),
    ],
)
def test_a_join_shows_rows_with_the_groups_that_it_asks_for(
    required: tuple[str, ...], seen: list[str]
) -> None:
    rule = GroupRule(TABLE.rule.declared, frozenset(), required=required)
    rows = states(*({**one, RECORD_KEY: key} for key, told in JOINED.items() for one in told))

    shown = to_visible_rows(rows, rule).column(RECORD_KEY).to_pylist()
    matched: Any = rows.filter(pa.array(is_matched(rows, rule))).column(RECORD_KEY)

    assert shown == matched.to_pylist() == seen
    everything = to_visible_rows(rows, rule, shows_unmatched=True)
    assert everything.column(RECORD_KEY).to_pylist() == list(JOINED)
    assert split(rule, rows)[0] == list(JOINED), "a file keeps rows that no reader sees"
    assert not any(is_hidden(name) for name in everything.column_names)
