"""Rows in base files, as the mirror counts them: always those that the footers state."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.contrib.auth.models import User
from django.test import Client

from bench.support.golden import ARCHIVES, MISSING, unpacked
from controlplane.mirror import row_counts
from controlplane.mirror.file_facts import list_file_groups
from controlplane.mirror.file_totals import store_file_totals
from controlplane.mirror.models import FileGroupRecord, SyncMark
from controlplane.mirror.row_counts import UNREADABLE
from controlplane.mirror.sync import forget_mirror, sync_table
from controlplane.tables.actions import do_register_table
from tests.controlplane.conftest import SCHEMA
from tests.controlplane.lake import Lake
from workers import LakehouseTable, create_table
from workers.errors import LakehouseError
from workers.options.write_options import write_options
from workers.table_services import registry
from workers.table_services.service import ServiceRequest

CITIES = ("Oslo", "Rome", "Lima")
STEPS = (
    *("upsert", "upsert", "insert", "bulk_insert", "delete", "insert_overwrite"),
    *("delete_partition", "compaction", "clustering", "clean", "archive", "savepoint"),
    *("restore", "rollback"),
)
SERVICES = {
    "clean": {"hoodie.clean.commits.retained": "1"},
    "archive": {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "2"},
}


def read_counts() -> dict[tuple[str, str], int | None]:
    """What the mirror has, by partition and base file."""
    rows = FileGroupRecord.objects.exclude(base_file="")
    return {
        (partition, name): base_rows
        for partition, name, base_rows in rows.values_list("partition", "base_file", "base_rows")
    }


def footers(location: Path) -> dict[tuple[str, str], int]:
    return {
        (partition, name): pq.read_metadata(location / partition / name).num_rows
        for partition, name in read_counts()
    }


def run(table: LakehouseTable, service: str, parameters: dict[str, str]) -> None:
    request = ServiceRequest("admin", "test", parameters)
    registry.get_service(service).run(table.table, request, write_options({}))


def rows(draw: Random) -> pa.Table:
    chosen = draw.sample(range(60), draw.randrange(1, 20))
    return pa.Table.from_pylist(
        [{"id": str(at), "ts": draw.randrange(99), "city": CITIES[at % 3]} for at in chosen],
        schema=SCHEMA,
    )


def step(table: LakehouseTable, name: str, draw: Random) -> None:
    """One step of a story. Some are refused in some states, as for people."""
    if name in ("compaction", "clustering", *SERVICES):
        run(table, name, SERVICES.get(name, {}))
    elif name == "delete_partition":
        table.delete_partition([f"city={draw.choice(CITIES)}"])
    elif name == "rollback":
        table.rollback(table.timeline()[-1].requested_at, dry_run=False, reason="test")
    elif name in ("savepoint", "restore"):
        kind = "savepoint" if name == "restore" else ""
        instants = [
            instant for instant in table.timeline() if not kind or instant.action.value == kind
        ]
        if instants:
            run(table, name, {"instant": draw.choice(instants).requested_at})
    else:
        table.write(rows(draw), name)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]
)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_counts_equal_the_footers_after_each_step_of_a_random_story(
    root: Path, admin: User, table_type: str, seed: int
) -> None:
    draw = Random(f"{seed}{table_type}")
    location = root / "story"
    table = create_table(
        location, name="story", schema=SCHEMA, record_key=["id"], partition_by=["city"],
        ordering=["ts"], table_type=table_type,
        options={"hoodie.datasource.write.hive_style_partitioning": "true"},
    )  # fmt: skip
    row = do_register_table(location=str(location), slug="story", name="Story", by=admin)
    done = set()
    for name in ("upsert", *draw.sample(STEPS, len(STEPS))):
        with suppress(LakehouseError):
            step(table, name, draw)
            done.add(name)
        sync_table(row)
        assert read_counts() == footers(location), name
        live = FileGroupRecord.objects.filter(is_replaced=False)
        if not live.filter(log_files__gt=0).exists():
            total = sum(rows or 0 for rows in live.values_list("base_rows", flat=True))
            assert total == table.scan().to_arrow().num_rows, name
    before = read_counts()
    assert len(done) >= len(set(STEPS)) - 4, done

    forget_mirror(row)
    sync_table(row)

    assert read_counts() == before


def test_files_of_archived_commits_are_counted_a_few_per_pass(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.commit(*[{"id": str(at), "ts": 1, "city": "Oslo"} for at in range(40)])
    table = LakehouseTable(lake.table)
    run(table, "compaction", {})
    for at in range(4):
        lake.commit({"id": str(at), "ts": 2, "city": "Oslo"})
    run(table, "archive", SERVICES["archive"])
    monkeypatch.setattr(row_counts, "FOOTERS_PER_PASS_MAX", 1)
    monkeypatch.setattr(row_counts.RowCounts, "count_written", lambda *_: None)
    files = len(list(Path(lake.row.location).glob("*.parquet")))
    assert files > 2

    passes = []
    for _ in range(files + 1):
        sync_table(lake.row)
        passes.append(sum(rows is not None for rows in read_counts().values()))

    assert passes == [*range(1, files + 1), files]
    assert read_counts() == footers(Path(lake.row.location))
    assert SyncMark.objects.get(table=lake.row).listing_hash != ""


def test_damaged_base_file_is_marked_and_not_read_again(lake: Lake) -> None:
    lake.commit({"id": "1", "ts": 1, "city": "Oslo"})
    run(LakehouseTable(lake.table), "compaction", {})
    [file] = Path(lake.row.location).glob("*.parquet")
    whole = file.read_bytes()
    file.write_bytes(b"PAR1" + bytes(len(whole) - 8) + b"PAR1")
    counts = row_counts.RowCounts({}, list_file_groups(lake.table, lake.table.timeline()))

    counts.count_by_footers(lake.table.storage)

    assert counts.is_complete
    assert counts.rows == {("", file.name): UNREADABLE}


@pytest.mark.skipif(not ARCHIVES, reason=MISSING)
@pytest.mark.parametrize("stem", ["cow-v8_complexkeygen_hivestyle", "mor-parquet-v6", "cow-v6_s"])
def test_apache_hudis_write_stats_state_what_its_footers_do(
    root: Path, db: None, stem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_counts, "FOOTERS_PER_PASS_MAX", 0)
    [archive] = [path for path in ARCHIVES if stem in path.stem]
    location = unpacked(archive, root)
    row = do_register_table(location=str(location), slug="theirs", by=None)

    sync_table(row)

    assert read_counts() == footers(location) != {}


def test_pages_and_the_api_show_rows_and_what_is_not_counted(lake: Lake, viewer: User) -> None:
    as_viewer = Client()
    as_viewer.force_login(viewer)
    lake.commit(*[{"id": str(at), "ts": 1, "city": "Oslo"} for at in range(40)])
    unread = as_viewer.get("/api/v1/tables/trips/").json()
    run(LakehouseTable(lake.table), "compaction", {})
    lake.commit({"id": "new", "ts": 2, "city": "Oslo"})
    sync_table(lake.row)

    listed = as_viewer.get("/api/v1/tables/").json()["results"][0]
    page = as_viewer.get("/tables/").content.decode()

    assert unread["base_file_rows"] is None
    assert (listed["base_file_rows"], listed["unmerged_log_files"]) == (40, 1)
    assert listed["uncounted_file_groups"] == 0
    assert as_viewer.get("/api/v1/tables/trips/").json()["base_file_rows"] == 40
    [cell] = re.findall(r'<td[^>]*class="of-base_rows.*?</td>', page, re.DOTALL)
    assert re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", cell)).strip() == "40 + 1 log"
    assert "Delta commits since the last compaction are not counted" in cell

    FileGroupRecord.objects.update(base_rows=None)
    store_file_totals(lake.row, FileGroupRecord.objects.all())

    assert as_viewer.get("/api/v1/tables/trips/").json()["base_file_rows"] is None
    assert "not counted" in as_viewer.get("/tables/").content.decode()
