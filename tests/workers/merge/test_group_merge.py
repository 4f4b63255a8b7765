"""The merge of column groups against an oracle that looks at one row at a time."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa
import pytest

from tests.workers.merge.group_cases import (
    KINDS,
    TABLES,
    Batch,
    Case,
    Chance,
    GroupTable,
    Kind,
)
from tests.workers.merge.group_oracle import DELETED, Version, merged
from workers.files.meta_columns import RECORD_KEY
from workers.merge.group_file import to_visible_rows
from workers.merge.group_merge import merge_groups
from workers.merge.group_state import GONE, SET, bits, hidden_fields, is_alive, with_absent
from workers.merge.merge import merge, merge_into, merge_into_parts, precombine
from workers.merge.rule import MergeRule
from workers.merge.versions import DELETED_FIELD

CASES = 100_000
tables = pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
Tree: TypeAlias = "int | tuple[Tree, ...]"


def written(table: GroupTable, batches: Iterable[Batch]) -> pa.Table:
    """What writers make of batches of different keys, conformed to the table."""
    by_columns: dict[tuple[str, ...], list[Version]] = {}
    for batch in batches:
        by_columns.setdefault(batch.said, []).extend(batch.rows)
    whole = pa.schema([*table.schema, *hidden_fields(table.column_groups, table.schema)])
    parts = [whole.empty_table()]
    for said, rows in by_columns.items():
        schema = pa.schema([table.schema.field(n) for n in (RECORD_KEY, *said)] + [DELETED_FIELD])
        given = pa.Table.from_pylist(rows, schema=schema)
        if not said:
            parts.append(given)
            continue
        states = precombine(given, MergeRule(None, groups=table.rule))
        conformed = pa.concat_tables([whole.empty_table(), states], promote_options="default")
        parts.append(with_absent(conformed, table.column_groups, said))
    return pa.concat_tables(parts, promote_options="default")


def fold(table: GroupTable, states: Sequence[pa.Table]) -> pa.Table:
    versions = pa.concat_tables(states, promote_options="default")
    return merge_groups(versions, table.column_groups)


def fold_anyhow(table: GroupTable, states: Sequence[pa.Table], pick: random.Random) -> pa.Table:
    """All of them, in a random association."""
    left = list(states)
    while len(left) > 1:
        begin = pick.randrange(len(left) - 1)
        end = pick.randint(begin + 2, len(left))
        if any(DELETED in one.column_names for one in left[begin:end]):
            begin = 0  # A state cannot tell what was erased before it.
        left[begin:end] = [fold(table, left[begin:end])]
    return fold(table, left)


def fold_along(table: GroupTable, states: Sequence[pa.Table], tree: Tree) -> pa.Table:
    if isinstance(tree, int):
        return states[tree]
    return fold(table, [fold_along(table, states, part) for part in tree])


def associations(begin: int, end: int) -> Iterator[Tree]:
    """Every way to fold these two at a time, and, of more than two, all at once."""
    if end - begin == 1:
        yield begin
    for cut in range(begin + 1, end):
        yield from itertools.product(associations(begin, cut), associations(cut, end))
    if end - begin > 2:
        yield tuple(range(begin, end))


def shown(table: GroupTable, states: pa.Table) -> pa.Table:
    """What a reader sees, and `present`, the bits of the groups that are there, sorted by key."""
    here = states.filter(pa.array(is_alive(states)))
    present = pa.array(bits(here, SET) & ~bits(here, GONE))
    return to_visible_rows(here, table.rule).append_column("present", present).sort_by(RECORD_KEY)


def held(shown_table: pa.Table) -> dict[str, Version]:
    listed: list[Version] = shown_table.to_pylist()
    by_key = {row.pop(RECORD_KEY): row for row in listed}
    assert len(by_key) == len(listed), "a key came twice"
    return by_key


def expected(table: GroupTable, cases: Iterable[Case]) -> dict[str, Version]:
    rows_by_key = {}
    for case in cases:
        answer = merged(case.versions, table.groups)
        if answer.present:
            there = (one["name"] in answer.present for one in table.groups)
            present = sum(is_there << n for n, is_there in enumerate(there))
            rows_by_key[case.key] = answer.row | {"present": present}
    return rows_by_key


def check(table: GroupTable, states: pa.Table, cases: Sequence[Case]) -> None:
    held_rows, wanted = held(shown(table, states)), expected(table, cases)
    if held_rows != wanted:
        case = next(one for one in cases if held_rows.get(one.key) != wanted.get(one.key))
        raise AssertionError(f"{case}\nis   {held_rows.get(case.key)}\nnot  {wanted.get(case.key)}")


def by_step(table: GroupTable, cases: Sequence[Case]) -> list[pa.Table]:
    steps = zip(*(case.batches for case in cases), strict=True)
    return [written(table, (one for one in step if one is not None)) for step in steps]


def cohorts(table: GroupTable, count: int, **chance: bool) -> Iterator[tuple[int, list[Case]]]:
    """Some keys that are written and folded together, most of them in large cohorts; a few are
    alone, as nothing but one key's versions are then merged. Even few keys come in cohorts of
    every length of history.
    """
    most = min(2_500, count // 5)
    for seed in range(1, 10_000):
        size = min(count, most if seed % 6 else 1)
        if size == 0:
            return
        count -= size
        made = Chance(seed, table, **chance)
        yield seed, [made.case(f"k{n}", 1 + seed % 4) for n in range(size)]


@pytest.mark.sampled(every=8)
@tables
def test_random_histories_are_what_the_oracle_says(table: GroupTable) -> None:
    """100,000 of them over all tables. Half come in another order, and with a batch that comes
    again, where that must not matter.
    """
    for seed, cases in cohorts(table, CASES // len(TABLES) + 1, has_ties=False, erases=False):
        pick, states = random.Random(seed), by_step(table, cases)
        if table.is_idempotent and seed % 2:
            states.append(pick.choice(states))
            pick.shuffle(states)

        check(table, fold_anyhow(table, states, pick), cases)


@pytest.mark.sampled(every=3)
@tables
def test_of_equal_ages_the_later_commit_wins(table: GroupTable) -> None:
    for seed, cases in cohorts(table, 1_500, has_ties=True, erases=False):
        states = by_step(table, cases)

        check(table, fold_anyhow(table, states, random.Random(seed)), cases)


@pytest.mark.sampled(every=3)
@tables
def test_a_delete_by_key_erases_what_was_visible_before_it(table: GroupTable) -> None:
    for seed, cases in cohorts(table, 1_500, has_ties=False, erases=True):
        states = by_step(table, cases)

        check(table, fold_anyhow(table, states, random.Random(seed)), cases)


@pytest.mark.sampled(every=8)
@tables
def test_a_few_keys_at_a_time_are_what_the_oracle_says(table: GroupTable) -> None:
    """With few keys all may be unique, and merges take their short cuts."""
    for seed in range(100):
        chance = Chance(seed, table, has_ties=bool(seed % 2), erases=seed % 3 == 0)
        cases = [chance.case(f"k{n}", 1 + seed % 3) for n in range(1 + seed % 2)]

        check(table, fold_anyhow(table, by_step(table, cases), random.Random(seed)), cases)


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("name", TABLES)
def test_every_order_batching_and_compaction_of_few_versions(name: str) -> None:
    """Three versions of any kinds, and four of different kinds."""
    check_everything(name, list(itertools.product(KINDS[name], repeat=3)))
    check_everything(name, list(itertools.permutations((KINDS[name] * 2)[:4])))


@pytest.mark.sampled(every=3)
@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_order_batching_and_compaction_of_four_versions_of_any_kinds(name: str) -> None:
    check_everything(name, list(itertools.product(KINDS[name], repeat=4)))


def check_everything(name: str, choices: Sequence[tuple[Kind, ...]]) -> None:
    """All histories of versions of these kinds, by age, each in every order, cut into batches in
    every way and folded in every way; each is a key.
    """
    table, count = TABLES[name], len(choices[0])
    orders = list(itertools.permutations(range(count)))
    histories = [
        [choice[at].version(table, f"{n}.{m}", at + 1) for at in order]
        for n, choice in enumerate(choices)
        for m, order in enumerate(orders)
    ]
    for cuts in itertools.product([False, True], repeat=count - 1):
        cases = [Case(one[0][RECORD_KEY], batches(table, one, cuts)) for one in histories]
        states, wanted = by_step(table, cases), expected(table, cases)
        trees = list(associations(0, len(states)))
        first_fold = shown(table, fold_along(table, states, trees[0]))
        assert held(first_fold) == wanted
        for tree in trees[1:]:
            assert shown(table, fold_along(table, states, tree)).equals(first_fold), tree
        if all(cuts) and table.is_idempotent:
            for n in range(len(choices)):
                ends = [wanted.get(f"{n}.{m}") for m in range(len(orders))]
                assert ends.count(ends[0]) == len(ends), (choices[n], ends)


def batches(
    table: GroupTable, versions: Sequence[Version], cuts: Sequence[bool]
) -> tuple[Batch, ...]:
    """A new one begins behind each cut; rows of one batch bring the same columns."""
    row_batches: list[list[Version]] = [[versions[0]]]
    for version, is_cut in zip(versions[1:], cuts, strict=True):
        if is_cut:
            row_batches.append([])
        row_batches[-1].append(version)
    return tuple(batch(table, rows) for rows in row_batches)


def batch(table: GroupTable, rows: Sequence[Version]) -> Batch:
    said = tuple(n for n in table.schema.names[1:] if any(n in row for row in rows))
    return Batch(said, tuple(dict.fromkeys(said) | row for row in rows))


@pytest.mark.sampled(every=3)
@tables
def test_a_base_and_its_logs_read_as_the_oracle_says(table: GroupTable) -> None:
    """Through the one merge function, a base that is in parts as well."""
    rule = MergeRule(None, groups=table.rule)
    for seed, cases in cohorts(table, 1_500, has_ties=True, erases=True):
        pick, steps = random.Random(seed), by_step(table, cases)
        cut = pick.randint(0, len(steps))
        empty = written(table, [])
        base = empty
        for step in steps[:cut]:
            base = merge_into(base, step, rule)
        newer = pa.concat_tables([empty, *steps[cut:]], promote_options="default")
        middle = pick.randint(0, base.num_rows)
        parts = [base.slice(0, middle), base.slice(middle)]

        at_once = merge_into(base, newer, rule)
        in_parts = list(merge_into_parts(parts, newer, rule))
        whole = pa.concat_tables([empty, base, newer], promote_options="default")

        check(table, at_once, cases)
        check(table, pa.concat_tables(in_parts), cases)
        check(table, merge(whole, rule), cases)
        assert at_once.schema == base.schema == merge(whole, rule).schema


@pytest.mark.sampled(every=3)
@tables
def test_logs_without_deletes_by_key_leave_the_rows_of_a_base_in_their_places(
    table: GroupTable,
) -> None:
    rule = MergeRule(None, groups=table.rule)
    for seed, cases in cohorts(table, 1_500, has_ties=True, erases=False):
        pick, steps = random.Random(seed), by_step(table, cases)
        cut = pick.randint(0, len(steps))
        empty = written(table, [])
        base = pa.concat_tables([empty, *steps[:cut]], promote_options="default")
        base = merge(base, rule).select(empty.column_names)
        newer = pa.concat_tables([empty, *steps[cut:]], promote_options="default")
        middle = pick.randint(0, base.num_rows)
        parts = [base.slice(0, middle), base.slice(middle)]

        *base_parts, new = merge_into_parts(parts, newer, rule)

        check(table, pa.concat_tables([*base_parts, new]), cases)
        keys = [one.column(RECORD_KEY) for one in parts]
        assert [one.column(RECORD_KEY) for one in base_parts] == keys
