"""Health checks judge by the thresholds that hold for a table, and say what is so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.test import Client

from controlplane.accounts.models import Grant
from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest
from controlplane.mirror.models import (
    FileGroupRecord,
    HeartbeatRecord,
    InstantRecord,
    MarkerDirectory,
    SyncMark,
)
from controlplane.mirror.thresholds import THRESHOLDS, defaults
from controlplane.monitoring.alert_rules import CHECKS
from controlplane.monitoring.models import HealthThreshold
from controlplane.monitoring.thresholds import (
    check_table_health,
    do_set_threshold,
    list_thresholds,
    load_limits,
)
from controlplane.tables.models import Table
from controlplane.tables.scopes import Scope, visible_scope
from workers.clock import format_instant

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
MB = 1_000_000


@pytest.fixture
def table(db: None) -> Table:
    made = Table.objects.create(
        slug="trips",
        name="Trips",
        location="/lake/trips",
        namespace="sales",
        table_type="MERGE_ON_READ",
        synced_at=NOW,
    )
    SyncMark.objects.create(table=made, tried_at=NOW)
    return made


def at(ago: timedelta) -> str:
    return format_instant(int((NOW - ago).timestamp() * 1000))


def commit(table: Table, ago: timedelta, action: str = "deltacommit", **facts: object) -> None:
    operation = str(facts.pop("operation_type", "UPSERT"))
    InstantRecord.objects.create(
        table=table,
        requested_at=at(ago),
        completed_at=at(ago),
        action=action,
        state="completed",
        operation_type=operation,
        metadata=facts,
    )


def groups(table: Table, sizes: list[float]) -> None:
    for number, size in enumerate(sizes):
        FileGroupRecord.objects.create(
            table=table,
            file_id=f"f{number}",
            bytes=int(size * MB),
            first_instant=at(timedelta()),
            last_instant=at(timedelta()),
        )


def verdict(table: Table, check: str, now: datetime = NOW) -> str | None:
    """None where the table has no such check."""
    return {each.name: each.verdict for each in check_table_health(table, now)}.get(check)


def set_everywhere(name: str, amount: float | None, admin: User) -> None:
    do_set_threshold(name, amount, scope=Scope(), by=admin)


@pytest.mark.parametrize(
    ("age_minutes", "wanted"), [(29, "good"), (31, "warn"), (61, "bad"), (None, "warn")]
)
def test_commits_are_held_to_the_sla_where_there_is_one(
    table: Table, admin: User, age_minutes: int | None, wanted: str
) -> None:
    if age_minutes is not None:
        commit(table, timedelta(minutes=age_minutes))
    commit(table, timedelta(), action="clean")
    assert verdict(table, "commits") is None

    set_everywhere("commit-sla", 30, admin)

    assert verdict(table, "commits") == wanted


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ([1, 1, 1, 200, 200], "warn"),
        ([1, 1, 200, 200], "good"),
        ([1, 1, 1, 200, 200, 200, 200], "good"),
    ],
)
def test_many_small_files_warn_where_they_are_most(
    table: Table, admin: User, sizes: list[float], wanted: str
) -> None:
    set_everywhere("small-files", 2, admin)
    groups(table, sizes)

    assert verdict(table, "small-files") == wanted


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ([1] * 99 + [2000], "warn"),
        ([1] * 99 + [90], "good"),
        ([10] * 99 + [150], "good"),
        ([1] * 8 + [2000], None),
    ],
)
def test_one_large_file_group_among_small_ones_is_skew(
    table: Table, sizes: list[float], wanted: str | None
) -> None:
    groups(table, sizes)

    assert verdict(table, "skew") == wanted


def test_rows_that_are_written_again_and_again_are_counted_against_changes(
    table: Table, admin: User
) -> None:
    commit(table, timedelta(minutes=3), inserts=5_000, updates=5_000, deletes=0, writes=400_000)
    assert verdict(table, "write-amplification") is None, "too little to judge by"
    commit(table, timedelta(minutes=2), operation_type="COMPACT", inserts=0, writes=700_000)

    assert verdict(table, "write-amplification") == "warn", "110 times"
    do_set_threshold("write-amplification", 111, scope=Scope(table=table), by=admin)
    assert verdict(table, "write-amplification") == "good"


@pytest.mark.parametrize(("beat_s_ago", "wanted"), [(1, "good"), (100, "warn"), (130, None)])
def test_a_writer_that_beats_late_is_suspect_before_it_is_given_up(
    table: Table, beat_s_ago: int, wanted: str | None
) -> None:
    HeartbeatRecord.objects.create(
        table=table,
        instant=at(timedelta()),
        beat_at=NOW - timedelta(seconds=beat_s_ago),
        interval_ms=60_000,
        tolerable_misses=2,
        last_seen=NOW,
    )

    assert verdict(table, "suspect-writer") == wanted


@pytest.mark.parametrize(
    ("state", "age_minutes", "wanted"),
    [("inflight", 90, "good"), ("completed", 90, "warn"), ("completed", 30, "good")],
)
def test_markers_of_what_has_ended_are_orphans(
    table: Table, state: str, age_minutes: int, wanted: str
) -> None:
    instant = at(timedelta(hours=2))
    InstantRecord.objects.create(
        table=table,
        requested_at=instant,
        completed_at=instant if state == "completed" else None,
        action="deltacommit",
        state=state,
    )
    assert verdict(table, "orphans") is None
    MarkerDirectory.objects.create(
        table=table,
        instant=instant,
        layout="direct",
        changed_at=NOW - timedelta(minutes=age_minutes),
    )

    assert verdict(table, "orphans") == wanted


@pytest.mark.parametrize(
    ("name", "check", "lowest"),
    [
        ("mirror-lag", "mirror", 5),
        ("compaction-commits", "compaction", 1),
        ("clean-commits", "cleaning", 1),
        ("active-commits", "archiving", 2),
        ("savepoint-age", "savepoints", 1),
    ],
)
def test_each_older_check_goes_by_its_threshold_too(
    table: Table, admin: User, name: str, check: str, lowest: float
) -> None:
    Table.objects.update(synced_at=NOW - timedelta(seconds=60))
    table.refresh_from_db()
    for number in range(3):
        commit(table, timedelta(minutes=number))
    commit(table, timedelta(days=2), action="savepoint")
    assert verdict(table, check) == "good"

    set_everywhere(name, lowest, admin)

    assert verdict(table, check) != "good"


def test_the_nearest_threshold_holds_and_each_says_where_it_comes_from(
    table: Table, admin: User
) -> None:
    def held() -> tuple[float, str, bool]:
        rows = {row.name: row for row in list_thresholds(Scope(table=table))}
        assert load_limits(table)["skew"] == rows["skew"].amount
        return rows["skew"].amount, rows["skew"].source, rows["skew"].is_set_here

    seen = [held()]
    for scope, amount in ((Scope(), 30), (Scope(namespace="sales"), 40), (Scope(table=table), 50)):
        do_set_threshold("skew", amount, scope=scope, by=admin)
        seen.append(held())
    do_set_threshold("skew", 60, scope=Scope(namespace="elsewhere"), by=admin)
    do_set_threshold("skew", None, scope=Scope(table=table), by=admin)
    seen.append(held())

    assert seen == [
        (20, "default", False),
        (30, "everywhere", False),
        (40, "namespace", False),
        (50, "table", True),
        (40, "namespace", False),
    ]
    recorded = AuditEvent.objects.filter(what="health.threshold").order_by("pk")
    assert [row.object for row in recorded] == [
        "everywhere",
        "sales",
        "trips",
        "elsewhere",
        "trips",
    ]


@pytest.mark.parametrize(
    ("name", "amount"),
    [("none", 1), ("skew", 1), ("skew", 1e9), ("skew", float("nan")), ("skew", float("inf"))],
)
def test_what_cannot_be_is_refused(admin: User, name: str, amount: float) -> None:
    with pytest.raises(InvalidRequest):
        set_everywhere(name, amount, admin)

    assert not HealthThreshold.objects.exists()


def test_an_admin_of_a_namespace_sets_what_is_his(table: Table, db: None) -> None:
    nina = User.objects.create_user("nina")
    Grant.objects.create(user=nina, role="admin", namespace="sales")
    for scope in (Scope(table=table), Scope(namespace="sales")):
        do_set_threshold("skew", 30, scope=scope, by=nina)

    for scope in (Scope(), Scope(namespace="other")):
        with pytest.raises(PermissionDenied):
            do_set_threshold("skew", 30, scope=scope, by=nina)


def test_thresholds_of_a_namespace_that_one_may_not_see_are_not_there(
    table: Table, nobody: User, viewer: User
) -> None:
    """Threat T12."""
    for name in ("sales", "no-such"):
        with pytest.raises(Http404):
            visible_scope(nobody, name)

    assert visible_scope(viewer, "sales").namespace == "sales"


def test_every_threshold_is_of_a_check_and_within_its_bounds(db: None) -> None:
    assert Group.objects.exists()
    assert {threshold.check for threshold in THRESHOLDS.values()} <= set(CHECKS)
    assert all(each.least <= each.default <= each.most for each in THRESHOLDS.values())
    assert set(defaults()) == set(THRESHOLDS)


def test_the_api_and_the_pages_set_and_show_them(table: Table, client: Client, admin: User) -> None:
    client.force_login(admin)

    def put(path: str, body: object) -> int:
        return client.put(f"/api/v1/{path}", body, content_type="application/json").status_code

    assert put("health-thresholds/skew/", {"amount": 30}) == 200
    assert put("health-thresholds/skew/", {"amount": 40, "namespace": "sales"}) == 200
    assert put("tables/trips/health/thresholds/skew/", {"amount": 1}) == 400
    assert put("tables/trips/health/thresholds/skew/", {"amount": 50}) == 200
    page = client.post("/t/trips/thresholds", {"name": "skew", "amount": ""}, follow=True)

    rows = {
        row["name"]: row for row in client.get("/api/v1/tables/trips/health/thresholds/").json()
    }
    everywhere = {row["name"]: row for row in client.get("/api/v1/health-thresholds/").json()}
    checks = {row["name"] for row in client.get("/api/v1/tables/trips/health/").json()}
    assert (rows["skew"]["amount"], rows["skew"]["source"]) == (40, "namespace")
    assert everywhere["skew"]["amount"] == 30
    assert "set to 40 times" in page.content.decode()
    assert {"mirror", "compaction", "cleaning"} <= checks
