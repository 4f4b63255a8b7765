"""Overview, file groups, schema and an instant's details: what they say of a table, and in which
states.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.mirror.health_check import Check
from controlplane.mirror.models import InstantRecord, SchemaRecord, SyncMark
from controlplane.mirror.queries.health import health_checks
from controlplane.mirror.queries.schema import schema_diff
from controlplane.mirror.sync import sync_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from tests.support.markup import compact
from tests.web.conftest import TRIPS, instant
from workers.lakehouse import create_table


def avro(*fields: tuple[str, object]) -> dict[str, object]:
    return {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in fields]}


NULLABLE = ["null", "string"]
POINT = {"type": "record", "name": "p", "fields": [{"name": "x", "type": "int"}]}
WIDER_POINT = {"type": "record", "name": "p", "fields": [{"name": "x", "type": "long"}]}


@pytest.mark.parametrize(
    ("older", "newer", "verdict"),
    [
        (avro(("a", "int")), avro(("a", "int")), "same"),
        (avro(("a", "int")), avro(("a", "long")), "compatible"),
        (avro(("a", "long")), avro(("a", "int")), "breaking"),
        (avro(("a", "int")), avro(("a", "int"), ("b", NULLABLE)), "compatible"),
        (avro(("a", "int")), avro(("a", "int"), ("b", "string")), "breaking"),
        (avro(("a", "int"), ("b", NULLABLE)), avro(("a", "int")), "breaking"),
        (avro(("a", "string")), avro(("a", NULLABLE)), "compatible"),
        (avro(("a", NULLABLE)), avro(("a", "string")), "breaking"),
        (avro(("a", "int"), ("b", "int")), avro(("b", "int"), ("a", "int")), "compatible"),
        (avro(("a", POINT)), avro(("a", WIDER_POINT)), "compatible"),
        (avro(("a", WIDER_POINT)), avro(("a", POINT)), "breaking"),
        (avro(("a", "nonsense")), avro(("a", "int")), "unknown"),
    ],
)
def test_verdict_says_whether_older_files_still_read(
    older: dict[str, object], newer: dict[str, object], verdict: str
) -> None:
    assert schema_diff(older, newer).verdict == verdict


def test_difference_reaches_into_a_struct() -> None:
    diff = schema_diff(avro(("a", POINT)), avro(("a", WIDER_POINT)))

    changes = {node.path: (node.change, node.before, node.after, node.depth) for node in diff.nodes}
    assert changes == {"a": ("same", "struct", "struct", 0), "a.x": ("changed", "int", "long", 1)}


def checks_of(table: Table) -> dict[str, Check]:
    return {check.name: check for check in health_checks(table, timezone.now())}


def record(
    table: Table, *, seconds: float, action: str, state: str = "completed", **more: object
) -> InstantRecord:
    """An instant of that long ago."""
    at = instant(timezone.now(), seconds=seconds)
    done = instant(timezone.now(), seconds=seconds - 0.5) if state == "completed" else None
    return InstantRecord.objects.create(
        table=table, requested_at=at, action=action, state=state, completed_at=done, **more
    )


@pytest.fixture
def logs(admin: User) -> Table:
    return Table.objects.create(
        slug="logs", name="logs", location="/lake/logs", table_type="MERGE_ON_READ",
        synced_at=timezone.now(),
    )  # fmt: skip


def test_healthy_table_has_nothing_to_do(logs: Table) -> None:
    record(logs, seconds=30, action="deltacommit")

    checks = checks_of(logs)

    assert {check.verdict for check in checks.values()} == {"good"}
    assert all(check.advice == "" and check.remedy == "" for check in checks.values())


@pytest.mark.parametrize(
    ("rows", "name", "verdict", "remedy"),
    [
        ([("compaction", "requested", 7200)], "planned", "bad", "compaction"),
        ([("compaction", "requested", 60)], "planned", "good", ""),
        ([("deltacommit", "inflight", 60)], "failed-writes", "warn", "rollback"),
        ([("deltacommit", "inflight", 7200)], "failed-writes", "bad", "rollback"),
        ([("deltacommit", "completed", at) for at in range(60, 66)], "compaction", "warn",
         "compaction"),
        ([("deltacommit", "completed", at) for at in range(60, 81)], "compaction", "bad",
         "compaction"),
        ([("deltacommit", "completed", at) for at in range(60, 91)], "archiving", "warn",
         "archive"),
        ([("deltacommit", "completed", at) for at in range(60, 91)], "cleaning", "warn", "clean"),
        ([("savepoint", "completed", 8 * 86_400)], "savepoints", "warn", "delete_savepoint"),
    ],
)  # fmt: skip
def test_check_names_the_reason_and_the_remedy(
    rows: list[tuple[str, str, float]], name: str, verdict: str, remedy: str, logs: Table
) -> None:
    for action, state, seconds in rows:
        record(logs, seconds=seconds, action=action, state=state)

    check = checks_of(logs)[name]

    assert (check.verdict, check.remedy) == (verdict, remedy)
    assert bool(check.advice) == (verdict != "good")


def test_what_blocks_archiving_is_named(logs: Table) -> None:
    for at in range(40):
        record(logs, seconds=100 + at, action="deltacommit")
    blocker = record(logs, seconds=9000, action="clustering", state="requested")

    check = checks_of(logs)["archiving"]

    assert "a pending clustering" in check.sentence
    assert check.instant == blocker.requested_at


def test_writer_at_work_blocks_no_archiving(logs: Table) -> None:
    for at in range(40):
        record(logs, seconds=100 + at, action="deltacommit")
    record(logs, seconds=3, action="deltacommit", state="inflight")

    check = checks_of(logs)["archiving"]

    assert (check.verdict, check.instant) == ("warn", "")
    assert "blocks" not in check.sentence


def test_writer_that_archiving_waits_for_is_named(logs: Table) -> None:
    for at in range(40):
        record(logs, seconds=100 + at, action="deltacommit")
    held = instant(timezone.now(), seconds=9000)
    writer = "process 7 on far"
    SyncMark.objects.create(table=logs, held_by={"instant": held, "writer": writer})

    check = checks_of(logs)["archiving"]

    assert (
        f"rolled back and may still live ({writer}) of 2 h ago blocks archiving" in check.sentence
    )
    assert check.instant == held


def test_files_that_nothing_tells_of_are_named(logs: Table) -> None:
    lost = instant(timezone.now(), seconds=9000)
    SyncMark.objects.create(table=logs, unproved=[lost])

    check = checks_of(logs)["known-files"]

    assert (check.verdict, check.instant) == ("warn", lost)
    assert check.sentence.startswith(
        "files of 1 instant that are not on the active or archived timeline"
    )
    assert check.sentence.endswith(f"such as {lost}")


def test_archived_commits_do_not_lengthen_the_timeline(logs: Table) -> None:
    for at in range(60):
        record(logs, seconds=100 + at, action="deltacommit", is_archived=True)

    assert checks_of(logs)["archiving"].verdict == "good"


def test_mirror_that_fell_behind_or_fails_says_so(logs: Table) -> None:
    Table.objects.update(synced_at=timezone.now() - timedelta(minutes=5))
    logs.refresh_from_db()
    behind = checks_of(logs)["mirror"]
    logs.sync_error = "storage is gone"

    assert behind.verdict == "warn"
    assert checks_of(logs)["mirror"].verdict == "bad"


def test_instant_details_come_in_tabs_from_its_own_files(trips: Table, as_viewer: Client) -> None:
    at = trips.instants.latest("requested_at").requested_at

    def tab(name: str) -> str:
        page = as_viewer.get(f"/t/trips/timeline/instant/{at}?tab={name}")
        return compact(page.content.decode())

    assert "Create savepoint" in tab("summary")
    assert f"{at}.parquet" in tab("files")
    assert "1 row: 0 inserted, 1 updated, 0 deleted" in tab("files")
    assert 'aria-label="Partitions of the instant"' in tab("partitions")
    assert tab("json").count("<details") == 3
    assert "&quot;partitionToWriteStats&quot;" in tab("json")
    assert "write before it" in tab("links").lower()


def test_damaged_file_of_an_instant_is_told_and_not_a_fault(
    trips: Table, as_viewer: Client
) -> None:
    at = trips.instants.latest("requested_at").requested_at
    timeline = Path(trips.location) / ".hoodie" / "timeline"
    next(timeline.glob(f"{at}_*")).write_bytes(b"no avro")

    answer = as_viewer.get(f"/t/trips/timeline/instant/{at}?tab=json")

    assert answer.status_code == 200
    assert b"not an avro container" in answer.content


def test_storage_that_is_gone_leaves_the_summary(trips: Table, as_viewer: Client) -> None:
    at = trips.instants.latest("requested_at").requested_at
    Table.objects.update(location=trips.location + "-moved")

    files = as_viewer.get(f"/t/trips/timeline/instant/{at}?tab=files").content.decode()

    assert "Try again" in files
    assert as_viewer.get(f"/t/trips/timeline/instant/{at}").status_code == 200


def test_file_groups_are_filtered_and_one_is_shown_in_detail(
    trips: Table, as_viewer: Client
) -> None:
    every = as_viewer.get("/t/trips/files").content.decode()
    none = as_viewer.get("/t/trips/files?q=zzz").content.decode()
    there = re.findall(r'href="(/t/trips/files/group\?[^"]+)"', every)

    detail = as_viewer.get(there[0].replace("&amp;", "&")).content.decode()

    assert "No matching file groups" in none
    assert "File slices" in detail
    assert as_viewer.get("/t/trips/files/group?partition=x&id=y").status_code == 404


@pytest.mark.parametrize("text", ["00000000-0000", "Oslo"])
def test_search_finds_files_and_partitions_of_the_table_at_hand(
    text: str, trips: Table, as_viewer: Client
) -> None:
    there = as_viewer.get("/go", {"q": text, "table": "trips"})["Location"]

    assert there in (f"/t/trips/files?q={text}", f"/tables/?q={text}")
    if there.startswith("/t/"):
        assert b"No matching file groups" not in as_viewer.get(there).content


def test_two_schemas_are_picked_by_address(busy: Table, as_viewer: Client) -> None:
    newest, older = SchemaRecord.objects.order_by("-completed_at")

    html = as_viewer.get(
        "/t/ads/schema", {"from": newest.instant, "to": older.instant}
    ).content.decode()

    assert f'From <span class="mono">{older.instant}</span>' in html
    assert "breaking" in html
    assert as_viewer.get("/t/ads/schema?from=x&to=y").status_code == 200


def test_overview_says_how_rows_are_found(
    root: Path, admin: User, trips: Table, as_viewer: Client
) -> None:
    created = create_table(
        root / "looked",
        name="looked",
        schema=TRIPS,
        record_key=["id"],
        options={"hoodie.index.type": "GLOBAL_BLOOM"},
    )
    created.write(pa.Table.from_pylist([{"id": 1, "city": "Oslo", "ts": 1}], schema=TRIPS))
    looked = do_register_table(location=str(root / "looked"), slug="looked", name="l", by=admin)
    sync_table(looked)

    pages = [as_viewer.get(f"/t/{one}/").content.decode() for one in ("looked", "trips")]

    assert "global_bloomindex with key lookup" in pages[0]
    assert "bucket, 8 buckets per partition" in pages[1]
