"""Tasks that sift their own rows: what one attempt puts aside is kept once, or not at all."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.scenario_table import ScenarioTable, schema_of
from workers.concurrency.outcome import CommitOutcome, Committed
from workers.errors import BadRows, InstantRolledBack, InvalidInput, MalformedTable
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.timeline.metadata import DEAD_LETTER_ROWS_KEY
from workers.write.client import Transaction
from workers.write.context import WriteContext
from workers.write.handles import write_file_groups
from workers.write.row_validation import split_bad_rows
from workers.write.status import (
    DeadLetterFile,
    TaskIds,
    WriteStatus,
)

COLUMNS = schema_of(id=pa.string(), place=pa.string())
FIRST = pa.table({"id": ["a", None, "c"], "place": ["oslo", "oslo", "../etc"]})
SECOND = pa.table({"id": ["d", ""], "place": ["lund", "lund"]})


class Job:
    """A write whose tasks run where the test says, and answer in text as from executors."""

    def __init__(self, table: ScenarioTable, path: Path) -> None:
        options = {"sluice.dead.letter.path": str(path)}
        self.table = table
        self.path = path
        self.transaction: Transaction = (
            table.writer("job", options=options).begin(COLUMNS).transaction
        )
        self.statuses: list[str] = []
        self.letter_files: list[str] = []

    def runs(self, rows: pa.Table, task: TaskIds, *, is_taken: bool = True) -> list[DeadLetterFile]:
        context: WriteContext = pickle.loads(pickle.dumps(self.transaction.context))
        sifted = split_bad_rows(context, rows)
        statuses = write_file_groups(context, sifted.prepared, task, self.table.storage)
        letters = sifted.write_dead_letters(context, task, self.table.storage)
        if is_taken:
            self.statuses += [one.to_json() for one in statuses]
            self.letter_files += [one.to_json() for one in letters]
        return letters

    def commits(self) -> Committed:
        outcome = self.tries_to_commit()
        assert isinstance(outcome, Committed), outcome
        return outcome

    def tries_to_commit(self) -> CommitOutcome:
        return self.transaction.commit(
            map(WriteStatus.from_json, self.statuses),
            map(DeadLetterFile.from_json, self.letter_files),
        )

    def letters(self) -> list[tuple[str | None, str, str | None]]:
        """(file, key, row number), by file."""
        return [
            (file.name, row["id"], row["_sluice_row"])
            for file in sorted(self.path.glob("*.parquet"))
            for row in pq.read_table(file).to_pylist()
        ]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ScenarioTable]:
    made = ScenarioTable(tmp_path / "table", schema=COLUMNS, partition_by=["place"])
    yield made
    made.judge()


@pytest.fixture
def job(table: ScenarioTable, tmp_path: Path) -> Job:
    return Job(table, tmp_path / "letters")


def test_letters_of_all_tasks_are_kept_and_counted(job: Job) -> None:
    job.runs(FIRST, TaskIds(0, 7, 1))
    job.runs(SECOND, TaskIds(1, 7, 2))

    outcome = job.commits()

    assert [row["id"] for row in job.table.rows()] == ["a", "d"]
    assert [found[1] for found in job.letters()] == [None, "c", ""]
    assert {found[2] for found in job.letters()} == {None}
    extra = job.table.metadata(outcome.instant).extra_metadata
    assert extra[DEAD_LETTER_ROWS_KEY] == "3"


def test_one_attempt_may_put_rows_aside_several_times(job: Job) -> None:
    context, task = job.transaction.context, TaskIds(0, 7, 1)
    for part, rows in enumerate((FIRST, SECOND)):
        letters = split_bad_rows(context, rows).write_dead_letters(
            context, task, job.table.storage, part=part
        )
        job.letter_files += [one.to_json() for one in letters]

    job.commits()

    assert [found[1] for found in job.letters()] == [None, "c", ""]


def test_attempts_that_were_not_taken_double_nothing(job: Job) -> None:
    (first,) = job.runs(FIRST, TaskIds(0, 7, 1), is_taken=False)
    (second,) = job.runs(FIRST, TaskIds(0, 7, 2))
    assert first.name != second.name

    job.commits()

    assert {found[0] for found in job.letters()} == {second.name}
    assert [row["id"] for row in job.table.rows()] == ["a"]


def test_attempt_that_finds_itself_decided_takes_its_letters_back(job: Job) -> None:
    job.runs(FIRST, TaskIds(0, 7, 1))
    context = job.transaction.context
    sifted = split_bad_rows(context, SECOND)
    job.commits()

    with pytest.raises(InstantRolledBack, match="decided under its task"):
        sifted.write_dead_letters(context, TaskIds(1, 7, 2), job.table.storage)

    assert [found[1] for found in job.letters()] == [None, "c"]


def test_aborted_write_leaves_no_letter(job: Job) -> None:
    job.runs(FIRST, TaskIds(0, 7, 1))
    assert job.letters()

    job.transaction.abort("the job failed")

    assert job.letters() == []
    assert job.table.rows() == []


def test_write_that_another_rolled_back_leaves_no_letter(job: Job) -> None:
    job.runs(FIRST, TaskIds(0, 7, 1))
    request = RollbackRequest(job.transaction.instant, by="admin", reason="enough", is_forced=True)
    rollback(job.table.table, request, write_options({}))

    job.tries_to_commit()

    assert job.letters() == []


def test_other_writes_letters_are_left_alone(job: Job, tmp_path: Path) -> None:
    stranger = tmp_path / "letters" / "20200101000000000_0-0-0.parquet"
    stranger.parent.mkdir()
    stranger.write_bytes(b"of another write")

    job.runs(FIRST, TaskIds(0, 7, 1), is_taken=False)
    job.transaction.abort("the job failed")

    assert [file.name for file in stranger.parent.iterdir()] == [stranger.name]


def test_too_many_letters_of_all_tasks_take_the_write_back(job: Job) -> None:
    rows = pa.table({"id": pa.nulls(6_000, pa.string()), "place": ["x"] * 6_000})
    job.runs(rows, TaskIds(0, 7, 1))
    job.runs(rows, TaskIds(1, 7, 2))

    with pytest.raises(InvalidInput, match="too many rows"):
        job.commits()

    assert job.letters() == []
    assert all(state == "completed" for _, state in job.table.timeline())


def test_without_a_path_a_row_refuses_its_batch(table: ScenarioTable) -> None:
    transaction = table.writer("w").begin(COLUMNS).transaction

    with pytest.raises(BadRows, match="record key is null"):
        split_bad_rows(transaction.context, FIRST)

    transaction.abort("refused")


def test_letters_are_no_statuses() -> None:
    letter = DeadLetterFile("20260101000000000_0-0-1.parquet", 3)

    assert DeadLetterFile.from_json(letter.to_json()) == letter
    with pytest.raises(MalformedTable):
        WriteStatus.from_json(letter.to_json())
