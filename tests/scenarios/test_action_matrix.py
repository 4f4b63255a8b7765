"""Who meets whom: every pair of actions, in every state in which they can meet, played by real
writers and services, with the verdicts that `docs/concurrency.md` promises.

Whatever the verdict, the rows afterwards are those of what was told to be complete, in the order of
completion: none is lost, none is there twice. Bugs E1 to E4 are cells of their own below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.scenarios.actors import Actor, Lake, Verdict, row, settle
from tests.scenarios.services import run
from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import PlanOvertaken
from workers.timeline.instant import State
from workers.timeline.pending_plans import pending_file_groups

_DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "concurrency.md"
_NAMES = {
    "SW": "single",
    "OCC": "optimistic",
    "NBCC": "non-blocking",
    "IO": "insert_overwrite",
    "IOT": "insert_overwrite_table",
    "DP": "delete_partition",
    "RB": "rollback",
    "FW": "failed write",
}
_WRITERS = tuple(_NAMES)[:6]
_MERGE_ON_READ_ONLY = ("non-blocking", "compaction")
_KINDS = ("MERGE_ON_READ", "COPY_ON_WRITE")
_VERDICTS: dict[str, set[tuple[Verdict | None, Verdict]]] = {
    "ok": {("ok", "ok")},
    "lost": {("lost", "ok")},
    "later": {("ok", "refused"), ("ok", "idle")},
    "done": {("idle", "ok"), ("idle", "refused")},
    "dead": {(None, "ok")},
}


@dataclass(frozen=True)
class Cell:
    kind: str
    state: str
    first: str
    second: str
    promised: str

    def __str__(self) -> str:
        names = (self.kind, self.state, self.first, self.second)
        return "-".join(names).replace(" ", "_")

    @property
    def is_quick(self) -> bool:
        is_plain = self.kind == "MERGE_ON_READ" and self.state == "inflight"
        return is_plain and self.first in ("optimistic", "non-blocking", "clustering", "rollback")


def documented() -> Iterator[Cell]:
    for state in ("inflight", "requested"):
        _, _, rest = _DOCUMENT.read_text().partition(f"<!-- {state} -->\n")
        lines = rest.partition("\n\n")[0].splitlines()
        seconds = _cells(lines[0])[1:]
        for line in lines[2:]:
            name, *words = _cells(line)
            for second, word in zip(seconds, words, strict=True):
                yield from _of_kinds(state, name, second, word)
        if state == "requested":
            for name in _WRITERS:
                for second in seconds:
                    yield from _of_kinds(state, name, second, "dead")


def _of_kinds(state: str, first: str, second: str, word: str) -> Iterator[Cell]:
    pair = (_NAMES.get(first, first), _NAMES.get(second, second))
    on_kinds = word.split(maxsplit=1)[0].split("/")
    for at, kind in enumerate(_KINDS):
        if kind == "MERGE_ON_READ" or not set(pair) & set(_MERGE_ON_READ_ONLY):
            yield Cell(kind, state, *pair, on_kinds[at if len(on_kinds) > 1 else 0])


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture(scope="module")
def templates(tables_root: Path) -> dict[str, Lake]:
    made = ScenarioTables(tables_root / "templates")
    return {kind: Lake.make(made, kind) for kind in _KINDS}


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(cell, id=str(cell), marks=[] if cell.is_quick else pytest.mark.slow)
        for cell in documented()
    ],
)
def test_verdict_is_as_documented_and_no_row_is_lost_or_doubled(
    tables: ScenarioTables, templates: dict[str, Lake], cell: Cell
) -> None:
    lake = templates[cell.kind].copied(tables)
    opener, rival = Actor(lake, cell.first, 1), Actor(lake, cell.second, 2)
    met: list[Verdict] = []

    if cell.state == "inflight":
        first: Verdict | None = opener.plays(lambda: met.append(rival.plays()))
    else:
        opener.is_requested()
        met.append(rival.plays())
        first = None if cell.promised == "dead" else opener.plays()

    assert (first, *met) in _VERDICTS[cell.promised]
    settle(lake)
    assert lake.table.rows() == lake.ledger.rows()
    lake.table.writer("next").upsert_and_commit(row("z", 1))
    assert lake.table.rows() == [*lake.ledger.rows(), row("z", 1)]


def test_documented_tables_are_whole() -> None:
    cells = list(documented())

    assert {cell.promised for cell in cells} == set(_VERDICTS)
    for kind in _KINDS:
        seconds = {cell.second for cell in cells if cell.kind == kind}
        firsts = {cell.first for cell in cells if cell.kind == kind}
        assert len(seconds) == len(_NAMES) + 5 - (2 if kind == "COPY_ON_WRITE" else 0)
        assert seconds - firsts == {"savepoint"}


def lake_of_two(tables: ScenarioTables) -> ScenarioTable:
    table = tables(
        table_type="MERGE_ON_READ",
        schema=READINGS,
        ordering=["ts"],
        partition_by=["place"],
        options={"hoodie.bucket.index.num.buckets": "1"},
    )
    table.writer("load").upsert_and_commit(row("a", 1), row("c", 1, "bergen"))
    return table


@pytest.mark.parametrize("is_inflight", [False, True])
def test_e1_conflict_with_a_clustering_is_found_though_its_inflight_file_is_empty(
    tables: ScenarioTables, is_inflight: bool
) -> None:
    table = lake_of_two(tables)
    instant = scheduled_clustering(table)
    slow = table.writer("slow").upsert(row("a", 5))

    def look(done: int, total: int) -> None:
        clustering = table.table.timeline().find(instant)
        assert clustering is not None
        assert clustering.state is State.INFLIGHT
        assert table.storage.read(table.table.layout.path(clustering)) == b""
        if is_inflight and done == total:
            slow.wins()

    if is_inflight:
        with pytest.raises(PlanOvertaken, match="writer=slow"):
            run(table, "clustering", SORTED, on_progress=look)
        assert {one["id"]: one["ts"] for one in table.rows()}["a"] == 5
        return
    run(table, "clustering", SORTED, on_progress=look)
    assert slow.loses().rival == instant
    assert {one["id"]: one["ts"] for one in table.rows()}["a"] == 1


SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "value"}


def scheduled_clustering(table: ScenarioTable) -> str:
    outcome = run(table, "clustering", {**SORTED, "schedule_only": "true"})
    assert outcome.instant is not None
    return outcome.instant


@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_e2_pending_overwrite_is_no_clustering_for_anybody(
    tables: ScenarioTables, operation: str
) -> None:
    """It has no plan, so nobody reads one from its files, and no file group is taken by it."""
    table = lake_of_two(tables)
    pending = table.writer("over").upsert(row("n", 9), operation=operation)  # type: ignore[arg-type]

    assert pending_file_groups(table.storage, table.table.timeline()) == {}
    table.writer("other").upsert_and_commit(row("c", 2, "bergen"))
    due = {"hoodie.compact.inline.max.delta.commits": "1", "schedule_only": "true"}
    assert run(table, "compaction", due).instant is not None
    run(table, "clean")

    outcome = pending.commit()
    is_whole = operation == "insert_overwrite_table"
    assert isinstance(outcome, Conflicted if is_whole else Committed)


def test_e3_of_two_replace_commits_that_name_one_file_group_one_completes(
    tables: ScenarioTables,
) -> None:
    table = lake_of_two(tables)
    writers = [table.writer(f"over{n}") for n in range(3)]
    for number, writer in enumerate(writers):
        writer.upsert(row(f"n{number}", 9), operation="insert_overwrite")

    outcomes = [writer.commit() for writer in writers]

    assert [isinstance(one, Committed) for one in outcomes] == [True, False, False]
    replaced = [
        (partition, file_id)
        for instant in table.table.timeline().list_completed_writes()
        for partition, ids in table.metadata(
            instant.requested_at
        ).partition_to_replace_file_ids.items()
        for file_id in ids
    ]
    assert len(replaced) == len(set(replaced)) == 1
    assert [one["id"] for one in table.rows()] == ["c", "n0"]


@pytest.mark.parametrize("modes", [("optimistic", "optimistic"), ("single", "optimistic")])
@pytest.mark.parametrize("operation", ["insert", "upsert", "bulk_insert"])
def test_e4_new_key_that_two_insert_at_once_is_one_row(
    tables: ScenarioTables, modes: tuple[str, str], operation: str
) -> None:
    table = lake_of_two(tables)
    slow, quick = (table.writer(f"w{n}", mode=mode) for n, mode in enumerate(modes))
    slow.upsert(row("new", 1), operation=operation)  # type: ignore[arg-type]
    quick.upsert(row("new", 2), operation=operation)  # type: ignore[arg-type]
    quick.wins()

    slow.loses()

    assert [each["ts"] for each in table.rows() if each["id"] == "new"] == [2]


def test_e4_new_key_that_non_blocking_writers_insert_at_once_is_one_row(
    tables: ScenarioTables,
) -> None:
    table = lake_of_two(tables)
    writers = [table.writer(f"w{n}", mode="non-blocking") for n in range(4)]
    for number, writer in enumerate(writers):
        writer.upsert(row("new", number))

    for writer in writers:
        writer.wins()

    assert [each["ts"] for each in table.rows() if each["id"] == "new"] == [3]
