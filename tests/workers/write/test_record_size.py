"""The size of a record is estimated from the commits that a writer listed when it began. Some are
archived or rolled back before it reads them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scenario_table import ScenarioTable
from tests.support.table_services import run
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.table.view import FileSystemView
from workers.write.snapshot_context import measure_record_bytes

OPTIONS = write_options({"hoodie.parquet.small.file.limit": "0"})


@pytest.fixture(params=["SIMPLE", "BLOOM", "GLOBAL_SIMPLE"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> ScenarioTable:
    """Eight commits with files of different sizes."""
    table = ScenarioTable(tmp_path / "table", options={"hoodie.index.type": request.param})
    for number in range(8):
        table.writer("w").upsert_and_commit({"id": number, "city": "Oslo " * 99 * number})
    return table


def estimate(view: FileSystemView) -> int:
    return measure_record_bytes(view, OPTIONS.sizing)


def test_commits_that_are_archived_meanwhile_are_read_from_the_history(
    table: ScenarioTable,
) -> None:
    view = FileSystemView.load(table.table)
    before = estimate(FileSystemView.load(table.table))

    run(table.table, "archive", min_commits="2", max_commits="3")

    assert estimate(view) == before != OPTIONS.sizing.record_bytes


def test_commit_that_is_rolled_back_meanwhile_is_left_out(table: ScenarioTable) -> None:
    view = FileSystemView.load(table.table)
    newest = table.table.timeline().list_completed_writes()[-1].requested_at

    rollback(table.table, RollbackRequest(newest, by="test", reason="test"), OPTIONS)

    assert estimate(view) not in (0, OPTIONS.sizing.record_bytes)
