"""A delete that reads every file group, beside an ingest that commits to the same file groups every
few seconds (S3-09): it must end, and take nothing away that it did not mean.

The ingest commits between any two file groups that the delete looks at.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pyarrow as pa
import pytest

from tests.scenarios.services import run
from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables
from tests.support.watched_storage import WatchedStorage
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import BadRows, InvalidInput
from workers.lakehouse import LakehouseTable, open_table
from workers.options.write_options import write_options
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest

BUCKETS = 16
KEYS = 96
MODE = "hoodie.write.concurrency.mode"
RETRIES = "hoodie.write.num.retries.on.conflict.failures"
FORGOTTEN = "note = 'forget me'"
OPTIMISTIC, NON_BLOCKING = "OPTIMISTIC_CONCURRENCY_CONTROL", "NON_BLOCKING_CONCURRENCY_CONTROL"


def row(key: int, ts: int, note: str) -> Row:
    return {"id": f"k{key}", "place": "p", "ts": ts, "value": key, "note": note}


@pytest.fixture
def lake(tables: ScenarioTables) -> ScenarioTable:
    """Every third person asked to be forgotten; they are in all file groups."""
    table = tables(
        table_type="MERGE_ON_READ",
        schema=READINGS,
        ordering=["ts"],
        options={"hoodie.bucket.index.num.buckets": str(BUCKETS)},
    )
    rows = [row(key, 10, "keep") for key in range(KEYS)]
    for key in range(0, KEYS, 3):
        rows[key] = row(key, 10, "forget me")
    table.writer("load").upsert_and_commit(*rows)
    assert len(table.lakehouse.file_groups()) == BUCKETS
    return table


class Ingest:
    """Commits one batch over all file groups each time that `commit` is called, up to `most`."""

    def __init__(self, lake: ScenarioTable, mode: str, most: int) -> None:
        self.lake, self.mode, self.most = lake, mode, most
        self.ingested: dict[str, Row] = {}
        self.turns = 0

    def commit(self) -> None:
        if self.turns >= self.most:
            return
        self.turns += 1
        turn = self.turns
        batch = [row(1 + 3 * n, 10 + turn, f"turn {turn}") for n in range(KEYS // 3)]
        # One who asked to be forgotten comes back meanwhile, and one changes their mind.
        if turn == 2:
            batch += [row(3, 12, "here again")]
        self.lake.writer(f"ingest{turn}", mode=self.mode).upsert_and_commit(*batch)
        self.ingested |= {one["id"]: one for one in batch}


def expected(ingest: Ingest) -> list[Row]:
    rows = {f"k{key}": row(key, 10, "keep") for key in range(KEYS) if key % 3}
    rows |= ingest.ingested
    return [rows[key] for key in sorted(rows)]


def beside(lake: ScenarioTable, ingest: Ingest, read_every: int = 1) -> LakehouseTable:
    """A handle that lets the ingest commit between two of its reads of data files."""
    reads = count(1)

    def before(call: str, path: str) -> None:
        is_data = call in ("open_data", "create_data") and not path.startswith(".hoodie")
        if is_data and next(reads) % read_every == 0:
            ingest.commit()

    return open_table(lake.location, storage=WatchedStorage(lake.location, before=before))


def options(mode: str, retries: int = 0) -> dict[str, str]:
    return {
        MODE: mode,
        RETRIES: str(retries),
        "hoodie.write.markers.type": "direct",
        "sluice.writer.name": "forgetting",
    }


def by_handle(handle: LakehouseTable) -> Committed:
    outcome = handle.delete(predicate=FORGOTTEN, options=options(NON_BLOCKING))
    assert isinstance(outcome, Committed), outcome
    assert outcome.attempts == 1
    return outcome


def by_service(handle: LakehouseTable) -> None:
    request = ServiceRequest("test", parameters={"predicate": FORGOTTEN})
    outcome = get_service("delete").run(handle.table, request, write_options(options(NON_BLOCKING)))
    assert outcome.instant is not None


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("delete", [by_handle, by_service])
@pytest.mark.parametrize("ingest_mode", ["non-blocking", "optimistic"])
def test_non_blocking_delete_ends_at_once_beside_an_ingest_that_never_rests(
    lake: ScenarioTable, delete: Callable[[LakehouseTable], object], ingest_mode: str
) -> None:
    ingest = Ingest(lake, ingest_mode, most=12)

    delete(beside(lake, ingest))

    assert ingest.turns == 12
    assert lake.rows() == expected(ingest)
    run(lake, "compaction", {"hoodie.compact.inline.max.delta.commits": "1"})
    assert lake.rows() == expected(ingest)
    assert lake.orphan_files() == lake.leftovers() == []


def test_optimistic_delete_without_retries_starves(lake: ScenarioTable) -> None:
    ingest = Ingest(lake, "optimistic", most=1)

    outcome = beside(lake, ingest).delete(predicate=FORGOTTEN, options=options(OPTIMISTIC))

    assert isinstance(outcome, Conflicted)
    assert outcome.conflict.rival_writer == "ingest1"
    notes = [one["note"] for one in lake.rows()]
    assert notes.count("forget me") == KEYS // 3
    assert lake.orphan_files() == lake.leftovers() == []


@pytest.mark.slow
def test_optimistic_delete_ends_by_retries_as_soon_as_one_attempt_fits_between_two_commits(
    lake: ScenarioTable,
) -> None:
    ingest = Ingest(lake, "optimistic", most=4)

    handle = beside(lake, ingest, read_every=BUCKETS)
    outcome = handle.delete(predicate=FORGOTTEN, options=options(OPTIMISTIC, retries=6))

    assert isinstance(outcome, Committed), outcome
    assert outcome.attempts > 1
    assert ingest.turns == 4
    assert lake.rows() == expected(ingest)
    assert lake.orphan_files() == lake.leftovers() == []


def test_key_that_is_ingested_again_is_there_and_older_ones_stay_away(lake: ScenarioTable) -> None:
    lake.lakehouse.delete(predicate=FORGOTTEN, options=options(NON_BLOCKING))

    lake.writer("late").upsert_and_commit(row(0, 9, "late"), row(3, 11, "again"))

    note_of = {one["id"]: one["note"] for one in lake.rows()}
    assert "k0" not in note_of
    assert note_of["k3"] == "again"


def test_table_whose_rows_have_no_age_is_refused_before_anything_happens(
    tables: ScenarioTables,
) -> None:
    table = tables(table_type="MERGE_ON_READ", schema=READINGS)
    table.writer("load").upsert_and_commit(row(0, 10, "forget me"))
    before = table.listing()

    with pytest.raises(InvalidInput, match="no ordering field"):
        table.lakehouse.delete(predicate=FORGOTTEN, options=options(NON_BLOCKING))
    request = ServiceRequest("test", parameters={"predicate": FORGOTTEN})
    with pytest.raises(InvalidInput, match="no ordering field"):
        get_service("delete").run(table.table, request, write_options(options(NON_BLOCKING)))

    assert table.listing() == before


def test_row_without_an_ordering_value_refuses_the_delete_and_stays(lake: ScenarioTable) -> None:
    ageless = {**row(0, 0, "forget me"), "id": "ageless", "ts": None}
    lake.writer("load").upsert_and_commit(ageless)

    with pytest.raises(BadRows, match="has no ordering value"):
        lake.lakehouse.delete(predicate=FORGOTTEN, options=options(NON_BLOCKING))

    assert [one["note"] for one in lake.rows()].count("forget me") == KEYS // 3 + 1
    keys = pa.table({"id": ["ageless"]})
    assert isinstance(lake.lakehouse.delete(keys, options=options(NON_BLOCKING)), Committed)
