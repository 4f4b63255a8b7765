"""A table has more file groups than the mirror has rows for: the newest writes have rows, and each
figure counts all.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from controlplane.mirror.count_models import FileTotals, LeftOutFiles
from controlplane.mirror.models import FileGroupRecord
from controlplane.mirror.queries import files as file_queries
from controlplane.mirror.queries.files import all_partitions, backlog, partitions
from controlplane.mirror.queries.health import health_checks
from controlplane.mirror.sync import forget_mirror, sync_table
from controlplane.operations.table_changes.hanging import table_change_plan
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from tests.controlplane.conftest import SCHEMA
from tests.controlplane.mirror.test_row_counts import STEPS, step
from workers import LakehouseTable, create_table
from workers.errors import LakehouseError


@pytest.fixture
def daily_table(root: Path, admin: User) -> tuple[LakehouseTable, Table]:
    table = create_table(
        root / "dated", name="dated", schema=SCHEMA, record_key=["id"], partition_by=["city"],
        ordering=["ts"], table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "2"},
    )  # fmt: skip
    row = do_register_table(location=str(root / "dated"), slug="dated", name="Dated", by=admin)
    return table, row


def write_days(table: LakehouseTable, *days: str) -> None:
    for day in days:
        rows = [{"id": f"{day}{at}", "ts": 1, "city": day} for at in range(9)]
        table.write(pa.Table.from_pylist(rows, schema=SCHEMA), "upsert")


def read_figures(row: Table) -> dict[str, Any]:
    plan = table_change_plan(row)
    checks = {check.name: check for check in health_checks(row, timezone.now())}
    totals = FileTotals.objects.get(table=row)
    return {
        "backlog": replace(backlog(row), left_out=0),
        "partitions": all_partitions(row),
        "plan": (plan.file_groups, plan.bytes),
        "totals": (totals.bytes, totals.log_files, totals.small_files),
        "skew": checks.get("skew"),
    }


def test_newest_partitions_have_rows_and_figures_count_all(
    daily_table: tuple[LakehouseTable, Table], settings: Settings, viewer: User
) -> None:
    table, row = daily_table
    write_days(table, "2026-01-01", "2026-01-02", "2026-01-03")
    sync_table(row)
    whole = read_figures(row)

    settings.SLUICE_MIRROR_FILE_GROUPS_MAX = 3
    forget_mirror(row)
    sync_table(row)

    listed = set(FileGroupRecord.objects.values_list("partition", flat=True))
    assert listed == {"2026-01-02", "2026-01-03"}
    assert backlog(row).left_out == 3
    assert read_figures(row) == whole
    client = Client()
    client.force_login(viewer)
    page = client.get("/t/dated/files").content.decode()
    assert "3 other file groups" in page
    assert "2026-01-01" in page
    api = client.get("/api/v1/tables/dated/partitions/").json()
    assert [partition["file_groups"] for partition in api] == [2, 2, 2]
    [small] = [check for check in health_checks(row, timezone.now()) if check.name == "small-files"]
    assert "3 file groups with the newest writes, of 6," in small.sentence


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_figures_of_a_random_story_do_not_depend_on_the_limit(
    daily_table: tuple[LakehouseTable, Table], settings: Settings, seed: int
) -> None:
    table, row = daily_table
    draw = Random(seed)
    write_days(table, "Oslo", "Rome", "Lima")
    for name in draw.sample(STEPS, len(STEPS)):
        with suppress(LakehouseError):
            step(table, name, draw)
        settings.SLUICE_MIRROR_FILE_GROUPS_MAX = 4
        sync_table(row)
        in_steps = read_figures(row)
        settings.SLUICE_MIRROR_FILE_GROUPS_MAX = 1_000
        forget_mirror(row)
        sync_table(row)
        assert in_steps == read_figures(row), name
        assert not LeftOutFiles.objects.exists()


def test_of_too_many_partitions_those_with_the_newest_writes_are_listed(
    daily_table: tuple[LakehouseTable, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, row = daily_table
    write_days(table, "b", "c", "a")
    sync_table(row)
    monkeypatch.setattr(file_queries, "PARTITIONS_MAX", 2)

    assert [partition.partition for partition in partitions(row)] == ["a", "c"]
