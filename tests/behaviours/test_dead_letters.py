"""Rows that the table cannot hold: refused with the batch, or put beside the table when asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import InvalidInput
from workers.timeline.metadata import DEAD_LETTER_FILES_KEY, DEAD_LETTER_ROWS_KEY, ROWS_KEY
from workers.write import row_validation
from workers.write.prepare import prepare

PATH = "sluice.dead.letter.path"
BATCH = pa.table(
    {
        "id": ["a", None, "c", "", "e", "f::,"],
        "place": ["oslo", "oslo", "../etc", "oslo", "oslo", "oslo"],
        "ts": pa.array([1, 1, 1, 1, 1, 1]),
        "value": pa.array([1] * 6),
    }
)


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tables: ScenarioTables) -> ScenarioTable:
    return tables(
        table_type=request.param, schema=READINGS, ordering=["ts"], partition_by=["place"]
    )


def write(table: ScenarioTable, batch: pa.Table, path: Path | str, **options: str) -> Any:
    given = {"hoodie.write.markers.type": "direct", PATH: str(path)}
    return table.lakehouse.write(batch, options=given | options)


def letters(path: Path) -> list[dict[str, Any]]:
    return [
        row for file in sorted(path.glob("*.parquet")) for row in pq.read_table(file).to_pylist()
    ]


def test_bad_rows_go_beside_the_table_and_the_rest_is_committed(
    table: ScenarioTable, tmp_path: Path
) -> None:
    outcome = write(table, BATCH.drop_columns(["value"]), tmp_path / "letters")

    assert isinstance(outcome, Committed)
    assert [row["id"] for row in table.rows()] == ["a", "e"]
    dead_rows = letters(tmp_path / "letters")
    assert sorted((row["_sluice_row"], row["id"]) for row in dead_rows) == [
        (1, None),
        (2, "c"),
        (3, ""),
        (5, "f::,"),
    ]
    reasons = {row["_sluice_row"]: row["_sluice_error"] for row in dead_rows}
    assert "null" in reasons[1]
    assert "partition path" in reasons[2]
    assert "empty" in reasons[3]
    assert "never ends parsing" in reasons[5]
    assert {row["_sluice_instant"] for row in dead_rows} == {outcome.instant}
    extra = table.metadata(outcome.instant).extra_metadata
    assert (extra[DEAD_LETTER_ROWS_KEY], extra[ROWS_KEY]) == ("4", "2")
    written = [file.name for file in (tmp_path / "letters").iterdir()]
    assert extra[DEAD_LETTER_FILES_KEY].split(",") == written


def test_without_dead_letters_the_batch_is_refused_as_a_whole(table: ScenarioTable) -> None:
    with pytest.raises(InvalidInput, match=r"null.*first_rows=\[1\]"):
        write(table, BATCH.drop_columns(["value"]), "")

    assert table.rows() == []
    assert table.data_files() == []


def test_batch_of_bad_rows_alone_commits_no_row(table: ScenarioTable, tmp_path: Path) -> None:
    batch = pa.table({"id": pa.nulls(3, pa.string()), "place": ["x"] * 3, "ts": [1] * 3})

    outcome = write(table, batch, tmp_path / "letters")

    assert outcome.rows == 0
    assert len(letters(tmp_path / "letters")) == 3


def test_good_batch_leaves_no_letter(table: ScenarioTable, tmp_path: Path) -> None:
    outcome = write(table, BATCH.slice(0, 1).drop_columns(["value"]), tmp_path / "letters")

    assert letters(tmp_path / "letters") == []
    assert table.metadata(outcome.instant).extra_metadata[DEAD_LETTER_ROWS_KEY] == "0"


def test_rows_whose_value_the_column_cannot_hold_are_put_aside(
    table: ScenarioTable, tmp_path: Path
) -> None:
    """The column is kept in microseconds."""
    batch = pa.table(
        {
            "id": ["a", "b", "c", "d"],
            "place": ["oslo"] * 4,
            "ts": [1] * 4,
            "seen_at": pa.array([1_000, 1_001, 3_000, 3_003], pa.timestamp("ns", "UTC")),
        }
    )

    outcome = write(table, batch, tmp_path / "letters")

    assert isinstance(outcome, Committed)
    assert [row["id"] for row in table.rows()] == ["a", "c"]
    dead_rows = letters(tmp_path / "letters")
    assert [(row["id"], row["_sluice_row"]) for row in dead_rows] == [("b", 1), ("d", 3)]


def test_batch_whose_columns_do_not_fit_is_refused_all_the_same(
    table: ScenarioTable, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="value"):
        write(table, BATCH.set_column(3, "value", pa.array(["x"] * 6)), tmp_path / "letters")

    assert letters(tmp_path / "letters") == []


def test_letters_of_a_write_that_lost_go_with_it(
    table: ScenarioTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rivals = iter([{"id": "a", "place": "oslo", "ts": 1}])

    def interrupted(*given: Any) -> pa.Table:
        prepared = prepare(*given)
        for rival in rivals:
            table.writer("rival").upsert_and_commit(rival)
        return prepared

    monkeypatch.setattr(row_validation, "prepare", interrupted)
    options = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}

    outcome = write(table, BATCH.drop_columns(["value"]), tmp_path / "letters", **options)

    assert isinstance(outcome, Conflicted)
    assert letters(tmp_path / "letters") == []


@pytest.mark.parametrize("where", ["letters", "{table}", "{table}/letters", "{table}/.."])
def test_path_that_is_not_outside_the_table_is_refused(table: ScenarioTable, where: str) -> None:
    with pytest.raises(InvalidInput, match="dead-letter path"):
        write(table, BATCH.slice(0, 1), where.format(table=table.location))


def test_too_many_bad_rows_refuse_the_batch(table: ScenarioTable, tmp_path: Path) -> None:
    rows = 10_001
    batch = pa.table({"id": pa.nulls(rows, pa.string()), "place": ["x"] * rows, "ts": [1] * rows})

    with pytest.raises(InvalidInput, match="too many"):
        write(table, batch, tmp_path / "letters")
