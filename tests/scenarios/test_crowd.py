"""Many writers at once on few keys, some of whom die or give up: what was told is what is there.

Chance decides who writes what; each case prints its seed. The table must equal the replay of the
commits that were acknowledged, in the order of their completion, and nobody else's rows.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables
from workers.concurrency.outcome import CommitOutcome, Committed, Conflicted
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.timeline.instant import Action

WRITERS, ROUNDS = 6, 6
KEYS = [f"k{n}" for n in range(10)]


@dataclass
class Crowd:
    table: ScenarioTable
    mode: str
    seed: int
    outcomes: list[tuple[CommitOutcome, list[Row]]] = field(default_factory=list)
    dead: int = 0

    def run(self) -> None:
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(self._one_writer, range(WRITERS)))
        roll_back_dead_writers(self.table.table, write_options({}))

    def _one_writer(self, number: int) -> None:
        chance = random.Random(f"{self.seed}-{number}")
        for turn in range(ROUNDS):
            writer = self.table.writer(f"w{number}-{turn}", mode=self.mode)
            rows = [self._row(chance, writer.name) for _ in range(chance.randrange(1, 4))]
            writer.upsert(*rows)
            match chance.choice(["commit", "commit", "commit", "die", "abort"]):
                case "die":
                    writer.dies()
                    self.dead += 1
                case "abort":
                    writer.abort()
                case _:
                    self.outcomes.append((writer.commit(), rows))

    def _row(self, chance: random.Random, note: str) -> Row:
        key = chance.choice(KEYS)
        # Distinct, so that the answer does not hang on who of two equals came later.
        ts, place = chance.randrange(10**9), f"p{int(key[1:]) % 2}"
        return {"id": key, "place": place, "ts": ts, "value": ts % 97, "note": note}

    def replayed(self) -> list[Row]:
        newest: dict[str, Row] = {}
        for outcome, rows in self.outcomes:
            for row in rows if isinstance(outcome, Committed) else []:
                older = newest.get(row["id"])
                if older is None or row["ts"] > older["ts"]:
                    newest[row["id"]] = row
        return [newest[key] for key in sorted(newest)]


def a_crowd(tables: ScenarioTables, table_type: str, mode: str, seed: int) -> Crowd:
    table = tables(
        table_type=table_type,
        schema=READINGS,
        ordering=["ts"],
        partition_by=["place"],
        options={"hoodie.bucket.index.num.buckets": "2"},
    )
    crowd = Crowd(table, mode, seed)
    crowd.run()
    return crowd


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("table_type", "mode"),
    [
        ("COPY_ON_WRITE", "optimistic"),
        ("MERGE_ON_READ", "optimistic"),
        ("MERGE_ON_READ", "non-blocking"),
    ],
)
def test_table_is_the_replay_of_what_was_acknowledged(
    tables: ScenarioTables, table_type: str, mode: str, seed: int
) -> None:
    crowd = a_crowd(tables, table_type, mode, seed)

    assert crowd.table.rows() == crowd.replayed(), f"seed={seed}"
    assert crowd.table.orphan_files() == []
    assert crowd.table.leftovers() == []
    kinds = {type(outcome) for outcome, _ in crowd.outcomes}
    assert kinds <= {Committed, Conflicted}, f"seed={seed} {kinds}"
    if mode == "non-blocking":
        assert kinds == {Committed}


@pytest.mark.parametrize("seed", [4])
def test_a_crowd_leaves_one_rollback_per_writer_who_failed(
    tables: ScenarioTables, seed: int
) -> None:
    crowd = a_crowd(tables, "COPY_ON_WRITE", "optimistic", seed)

    lost = sum(isinstance(outcome, Conflicted) for outcome, _ in crowd.outcomes)
    aborted = WRITERS * ROUNDS - len(crowd.outcomes) - crowd.dead
    actions = [one.action for one in crowd.table.instants()]
    assert actions.count(Action.ROLLBACK) == lost + aborted + crowd.dead, f"seed={seed}"
    assert all(one.is_completed for one in crowd.table.instants())
