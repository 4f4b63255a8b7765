"""The merge of column groups against an oracle that looks at one row at a time."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.workers.merge.group_cases import TABLES, Batch, Case, Chance, GroupTable
from tests.workers.merge.group_oracle import DELETED, Answer, Version, merged
from workers.files.meta_columns import RECORD_KEY
from workers.merge.group_file import finished
from workers.merge.group_merge import merge_groups
from workers.merge.group_state import as_states, hidden_fields, with_absent
from workers.merge.versions import DELETED_FIELD

CASES = 100_000
tables = pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))


def written(table: GroupTable, batches: Iterable[Batch]) -> pa.Table:
    """What writers make of batches of different keys, conformed to the table."""
    by_columns: dict[tuple[str, ...], list[Version]] = {}
    for batch in batches:
        by_columns.setdefault(batch.said, []).extend(batch.rows)
    hidden = hidden_fields(table.rule.groups(table.schema.names), table.schema)
    whole = pa.schema([*table.schema, *hidden])
    found = [whole.empty_table()]
    for said, rows in by_columns.items():
        schema = pa.schema([table.schema.field(n) for n in (RECORD_KEY, *said)] + [DELETED_FIELD])
        given = pa.Table.from_pylist(rows, schema=schema)
        if not said:
            found.append(given)
            continue
        groups = table.rule.groups(given.column_names)
        states = merge_groups(as_states(given, groups, said), groups)
        conformed = pa.concat_tables([whole.empty_table(), states], promote_options="default")
        found.append(with_absent(conformed, table.rule.groups(table.schema.names), said))
    return pa.concat_tables(found, promote_options="default")


def fold(table: GroupTable, states: Sequence[pa.Table]) -> pa.Table:
    versions = pa.concat_tables(states, promote_options="default")
    return merge_groups(versions, table.rule.groups(table.schema.names))


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


def rows(table: GroupTable, states: pa.Table) -> dict[str, Version]:
    listed: list[dict[str, Any]] = finished(states, table.rule).to_pylist()
    found = {row.pop(RECORD_KEY): row for row in listed}
    assert len(found) == len(listed), "a key came twice"
    return found


def expected(table: GroupTable, histories: Iterable[tuple[str, list[Version]]]) -> dict[str, Any]:
    answers: Iterable[tuple[str, Answer]] = (
        (key, merged(versions, table.groups)) for key, versions in histories
    )
    return {key: answer.row for key, answer in answers if answer.present}


def assert_same(
    found: dict[str, Version], wanted: dict[str, Version], cases: Sequence[Case]
) -> None:
    if found == wanted:
        return
    case = next(one for one in cases if found.get(one.key) != wanted.get(one.key))
    raise AssertionError(f"{case}\nis   {found.get(case.key)}\nnot  {wanted.get(case.key)}")


def by_step(table: GroupTable, cases: Sequence[Case]) -> list[pa.Table]:
    steps = zip(*(case.batches for case in cases), strict=True)
    return [written(table, (one for one in step if one is not None)) for step in steps]


@tables
def test_random_histories_are_what_the_oracle_says(table: GroupTable) -> None:
    """Half of them in another order, and with a batch that comes again, where that must not
    matter.
    """
    left, seed = CASES // len(TABLES) + 1, 0
    while left > 0:
        seed, count = seed + 1, min(left, 2_500)
        left -= count
        pick, steps = random.Random(seed), 1 + seed % 4
        chance = Chance(seed, table, has_ties=False, erases=False)
        cases = [chance.case(f"k{n}", steps) for n in range(count)]
        states = by_step(table, cases)
        if table.is_idempotent and seed % 2:
            states.append(pick.choice(states))
            pick.shuffle(states)

        found = rows(table, fold_anyhow(table, states, pick))

        wanted = expected(table, ((case.key, case.versions) for case in cases))
        assert_same(found, wanted, cases)
