"""File groups: which partition is worth a look, and what writes cost for what they changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.mirror.models import FileGroupRecord, InstantRecord
from controlplane.mirror.queries.files import PartitionRow
from controlplane.mirror.queries.write_costs import write_costs
from controlplane.tables.models import Table
from tests.support.markup import compact
from tests.web.conftest import instant
from web.file_figures import amplification, partition_lines, partition_treemap

_NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def partition(name: str, *, size: int, groups: int = 4, largest: int | None = None) -> PartitionRow:
    return PartitionRow(
        partition=name, file_groups=groups, bytes=size, log_files=0, log_bytes=0, old_files=0,
        small_files=0, last_instant="", largest_bytes=largest or size // groups,
    )  # fmt: skip


def test_partition_far_above_the_median_and_one_with_a_lopsided_group_are_marked() -> None:
    rows = [
        partition("even", size=1_000),
        partition("huge", size=9_000),
        partition("lopsided", size=1_000, groups=20, largest=900),
    ]

    lines = {line.row.partition: line for line in partition_lines(rows)}

    assert list(lines) == ["huge", "even", "lopsided"]
    assert (lines["huge"].is_large, lines["huge"].is_skewed) == (True, False)
    assert (lines["lopsided"].is_large, lines["lopsided"].is_skewed) == (False, True)
    assert lines["lopsided"].skew == pytest.approx(18)
    assert (lines["even"].is_large, lines["even"].is_skewed) == (False, False)


def test_tiles_say_their_bytes_and_why_one_is_worth_a_look() -> None:
    rows = [partition("<b>a</b>", size=2_000), partition("z", size=20, groups=1)]
    lines = partition_lines([*rows, partition("y", size=30, groups=1)])

    figure = partition_treemap(lines, "/t/x/files")
    tiles = figure["data"][0]

    assert tiles["text"] == ["2.0 kB !", "30 B", "20 B"]
    assert "far larger than most partitions" in tiles["customdata"][0][1]
    assert tiles["labels"][0] == "&lt;b&gt;a&lt;/b&gt;"
    assert tiles["meta"]["links"][2] == "/t/x/files?partition=z"


def test_single_file_group_is_never_skewed() -> None:
    (line,) = partition_lines([partition("only", size=10, groups=1)])

    assert (line.skew, line.share_pct) == (None, 100.0)


@pytest.fixture
def written(admin: User) -> Table:
    """Two writes of ten rows into files of a hundred, and a compaction of as many."""
    table = Table.objects.create(slug="logs", name="logs", location="/lake/logs", synced_at=_NOW)
    writes: list[tuple[int, str, str, dict[str, Any]]] = [
        (50, "deltacommit", "UPSERT", {"inserts": 4, "updates": 5, "deletes": 1, "writes": 100}),
        (40, "deltacommit", "UPSERT", {"inserts": 0, "updates": 10, "deletes": 0, "writes": 100}),
        (30, "commit", "COMPACT", {"inserts": 0, "updates": 20, "deletes": 0, "writes": 100}),
        (20, "deltacommit", "UPSERT", {"inserts": 0, "updates": 0, "deletes": 0, "writes": 0}),
    ]
    for seconds, action, operation, metadata in writes:
        at = instant(_NOW, seconds=seconds)
        InstantRecord.objects.create(
            table=table, requested_at=at, completed_at=at, action=action, state="completed",
            operation_type=operation, bytes=1_000, metadata=metadata,
        )  # fmt: skip
    FileGroupRecord.objects.create(
        table=table, partition="", file_id="f", bytes=50, base_bytes=50, slices=1,
        first_instant=instant(_NOW, seconds=50), last_instant=instant(_NOW, seconds=20),
    )  # fmt: skip
    return table


def test_compaction_is_counted_as_written_and_changes_nothing(written: Table) -> None:
    costs = write_costs(written)

    # Three hundred rows in files for the twenty that were changed.
    assert costs.amplification == pytest.approx(15)
    assert costs.rewritten_pct == pytest.approx(100 / 3)
    assert [(lane.lane, lane.changed, lane.written) for lane in costs.lanes] == [
        ("deltacommit", 20, 200),
        ("compaction", 0, 100),
    ]
    assert [write.lane for write in costs.writes] == ["deltacommit", "deltacommit", "compaction"]


def test_rewrites_have_bars_of_their_own(written: Table) -> None:
    figure = amplification(write_costs(written).writes)

    assert figure is not None
    bars = {trace["name"]: trace["y"] for trace in figure["data"]}
    assert bars == {
        "rows changed": [10, 10, None],
        "rows written": [100, 100, None],
        "rows rewritten": [None, None, 100],
    }


def test_page_and_twin_say_what_writes_cost(written: Table, as_viewer: Client) -> None:
    html = compact(as_viewer.get("/t/logs/files").content.decode())

    assert "15.0 rows written to files per changed row" in html
    assert 'aria-label="Cost by kind of write"' in html
    assert 'aria-label="Bytes by partition as a table"' in html


def test_table_whose_commits_say_nothing_has_no_such_figure(
    written: Table, as_viewer: Client
) -> None:
    InstantRecord.objects.update(metadata={})

    html = as_viewer.get("/t/logs/files").content.decode()

    assert "Write amplification" not in html
    assert write_costs(written).amplification is None
    assert amplification([]) is None
