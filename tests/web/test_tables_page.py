"""The list of tables: filters, order, columns, views, pins, exports, one service on several; and
what it costs with a thousand of them.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import uuid

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from controlplane.accounts.models import Grant
from controlplane.audit.models import AuditEvent
from controlplane.home.tables import EXPORT_ROWS_MAX, SORTED_BY
from controlplane.mirror.file_totals import store_file_totals
from controlplane.mirror.models import FileGroupRecord, InstantRecord
from controlplane.mirror.queries.files import SMALL_FILE_BYTES
from controlplane.mirror.sync import sync_table
from controlplane.monitoring.models import HealthThreshold
from controlplane.monitoring.thresholds import do_set_threshold
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from controlplane.tables.scopes import Scope
from tests.support.many_tables import many_tables
from tests.support.markup import compact
from tests.web.conftest import instant
from workers import open_table

QUERIES_MAX = 12
COMPRESSED_MAX = 60_000
DIRECT = {"hoodie.write.markers.type": "direct"}


def listed(client: Client, query: str = "") -> list[str]:
    """Slugs of the page, in order."""
    part = client.get(f"/tables/rows{query}").content.decode()
    return re.findall(r'data-key="([^"]+)"', part)


def test_a_thousand_tables_are_paged_light_and_cheap(as_viewer: Client) -> None:
    many_tables(1_000, timezone.now())

    with CaptureQueriesContext(connection) as queries:
        answer = as_viewer.get("/tables/")

    assert len(queries) <= QUERIES_MAX, [query["sql"][:90] for query in queries]
    assert len(gzip.compress(answer.content)) < COMPRESSED_MAX
    assert re.search(r"1.50 of 1\s?000", compact(answer.content.decode()))
    assert listed(as_viewer, "?page=20")[-1] == "lake-0999"


@pytest.mark.parametrize(
    ("query", "slugs"),
    [
        ("?q=0003", ["lake-0003"]),
        ("?namespace=n4", ["lake-0004", "lake-0014"]),
        ("?show=conflicts", ["lake-0000", "lake-0010"]),
        ("?show=suspects", ["lake-0000"]),
        ("?show=check.compaction", ["lake-0000", "lake-0010"]),
        ("?show=late", []),
        ("?owner=sales&tag=pii", ["lake-0003", "lake-0009", "lake-0015"]),
        ("?sort=-size&q=000", [f"lake-000{at}" for at in range(9, -1, -1)]),
        ("?sort=-name&q=000", [f"lake-000{at}" for at in range(9, -1, -1)]),
        ("?sort=-conflicts&q=00&page=99", None),
    ],
)
def test_filters_and_order_stand_in_the_address(
    query: str, slugs: list[str] | None, as_viewer: Client
) -> None:
    many_tables(20, timezone.now())

    rows = listed(as_viewer, query)

    assert rows == slugs if slugs is not None else len(rows) == 20


@pytest.mark.parametrize("key", SORTED_BY)
def test_every_column_sorts_either_way(key: str, as_viewer: Client) -> None:
    many_tables(3, timezone.now())
    Table.objects.create(slug="unread", name="unread", location="/lake/unread")

    up, down = listed(as_viewer, f"?sort={key}"), listed(as_viewer, f"?sort=-{key}")

    assert len(up) == 4
    assert set(up) == set(down)


def test_a_pinned_table_comes_first_for_whoever_pinned_it(
    as_viewer: Client, as_admin: Client
) -> None:
    many_tables(5, timezone.now())

    as_viewer.post("/t/lake-0003/pin", {"pinned": "1"})
    pinned = listed(as_viewer)
    as_viewer.post("/t/lake-0003/pin", {"pinned": "0"})

    assert pinned[0] == "lake-0003"
    assert listed(as_viewer)[0] == listed(as_admin)[0] == "lake-0000"


def test_columns_and_views_are_kept_for_one_person(as_viewer: Client, as_admin: Client) -> None:
    many_tables(2, timezone.now())

    as_viewer.post("/tables/columns", {"column": ["owner", "location", "nothing"]})
    as_viewer.post("/tables/views", {"name": "Mine", "query": "owner=sales&page=3"})
    own, others = (client.get("/tables/").content.decode() for client in (as_viewer, as_admin))

    assert re.findall(r'class="of-(\w+)', own) == ["owner", "location"] * 2
    assert 'href="/tables/?owner=sales"' in own
    assert "of-conflicts" in others
    assert ">Mine<" not in others
    as_viewer.post("/preferences/views/delete", {"name": "Mine", "confirmed": "yes"})
    as_viewer.post("/tables/columns", {"reset": "1"})
    restored = as_viewer.get("/tables/").content.decode()
    assert "of-conflicts" in restored
    assert ">Mine<" not in restored


def test_an_export_has_every_page_and_no_formula(as_viewer: Client) -> None:
    many_tables(60, timezone.now())
    Table.objects.filter(slug="lake-0000").update(owner='=HYPERLINK("x")')

    sheet = as_viewer.get("/tables/export?as=csv&sort=name")
    whole = json.loads(as_viewer.get("/tables/export?as=json&show=conflicts").content)

    rows = list(csv.DictReader(io.StringIO(sheet.content.decode())))
    assert len(rows) == 60
    assert rows[0]["owner"] == '\'=HYPERLINK("x")'
    assert rows[1]["mirror"].endswith("Z")
    assert (whole["total"], whole["is_cut"]) == (6, False)
    assert whole["rows"][0]["owner"] == '=HYPERLINK("x")'
    assert 'filename="tables-' in sheet["Content-Disposition"]


def test_an_export_says_that_it_was_cut(as_viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.pages.tables.EXPORT_ROWS_MAX", 4)
    many_tables(9, timezone.now())

    sheet = as_viewer.get("/tables/export?as=csv")
    whole = json.loads(as_viewer.get("/tables/export?as=json").content)

    assert EXPORT_ROWS_MAX > 4
    assert "-first-4-of-9.csv" in sheet["Content-Disposition"]
    assert sheet["X-Rows"] == "4 of 9"
    assert whole["is_cut"]


def test_one_service_runs_on_several_and_what_is_refused_holds_up_no_other(
    as_admin: Client, as_viewer: Client, trips: Table, orders: Table
) -> None:
    rows = {"id": ["a"], "ts": [1], "city": ["Oslo"]}
    for _ in range(6):
        open_table(orders.location).write(pa.table(rows), options=DIRECT)
    sync_table(orders)
    form = {
        "service": "compaction",
        "table": ["orders", "trips", "nothing"],
        "reason": "spring",
        "idempotency_key": str(uuid.uuid4()),
    }

    page = compact(as_admin.post("/tables/bulk", form).content.decode())
    as_admin.post("/tables/bulk", form)
    refused = as_viewer.post("/tables/bulk", {**form, "table": ["trips"]}).content.decode()

    assert "Table not found." in page
    assert list(Operation.objects.values_list("table__slug", flat=True)) == ["orders"]
    assert AuditEvent.objects.filter(what="service.compaction", reason="spring").count() >= 1
    assert "2 rejected" in page
    assert "requires the operator role" in refused


@pytest.mark.parametrize("service", ["delete_partition", "rollback_several", ""])
def test_what_takes_data_away_is_not_run_on_several(service: str, as_admin: Client) -> None:
    form = {"service": service, "table": ["x"], "idempotency_key": str(uuid.uuid4())}

    assert as_admin.post("/tables/bulk", form).status_code == 400


def test_owner_and_tags_are_set_with_a_reason_and_stand_in_the_audit(
    as_admin: Client, admin: User, trips: Table
) -> None:
    form = {
        "name": "trips", "slug": "trips", "namespace": "default", "location": trips.location,
        "owner": "growth", "tags": "gold, pii gold", "reason": "asked",
        "idempotency_key": str(uuid.uuid4()),
    }  # fmt: skip

    as_admin.post("/t/trips/settings", form)
    wrong = {**form, "tags": "No!", "idempotency_key": str(uuid.uuid4())}
    refused = as_admin.post("/t/trips/settings", wrong)

    trips.refresh_from_db()
    assert (trips.owner, trips.tags) == ("growth", "gold pii")
    assert AuditEvent.objects.get(what="table.label").details["tags"] == "gold pii"
    assert b"a tag must have 1 to 40 lower-case letters" in refused.content.lower()


def test_tags_are_added_and_removed_on_all_ticked_tables_or_on_none(
    as_admin: Client, client: Client, operator: User, trips: Table, orders: Table
) -> None:
    Table.objects.filter(slug="trips").update(tags="gold")
    Grant.objects.create(user=operator, table=trips, role="admin")
    client.force_login(operator)
    form = {"table": ["trips", "orders"], "tags": "pii, gold", "deed": "add", "reason": "audit"}

    barred = client.post("/tables/tag", form)
    unknown = as_admin.post("/tables/tag", {**form, "table": ["trips", "gone"]})
    wordless = as_admin.post("/tables/tag", {**form, "reason": ""})

    assert (barred.status_code, unknown.status_code, wordless.status_code) == (403, 400, 400)
    assert "requires the admin role on orders" in compact(barred.content.decode())
    assert "gone" in unknown.content.decode()
    assert list(Table.objects.values_list("slug", "tags")) == [("orders", ""), ("trips", "gold")]
    assert not AuditEvent.objects.filter(what="table.label").exists()
    as_admin.post("/tables/tag", form)
    client.post("/tables/tag", {**form, "table": "trips", "deed": "remove", "tags": "gold"})
    tags = dict(Table.objects.values_list("slug", "tags"))
    assert tags == {"orders": "gold pii", "trips": "pii"}
    events = AuditEvent.objects.filter(what="table.label").order_by("pk")
    assert [event.object for event in events] == ["trips", "orders", "trips"]


def test_tags_that_are_too_long_together_change_no_table(
    as_admin: Client, trips: Table, orders: Table
) -> None:
    Table.objects.filter(slug="orders").update(tags=" ".join(f"{at:035}" for at in range(8)))
    body = {"tables": ["trips", "orders"], "add": "x" * 40, "reason": "audit"}

    answer = as_admin.post("/api/v1/bulk/tags/", body, content_type="application/json")
    again = as_admin.post(
        "/api/v1/bulk/tags/", {**body, "add": "pii"}, content_type="application/json"
    )

    assert answer.status_code == 400
    assert "orders" in answer.json()["detail"]
    assert again.json() == {"changed": ["trips", "orders"], "unchanged": []}
    assert Table.objects.get(slug="trips").tags == "pii"


def test_age_is_shown_against_the_nearest_target_and_the_default_promises_nothing(
    as_viewer: Client, admin: User, settings: Settings
) -> None:
    settings.SLUICE_FRESHNESS_TARGET_MIN = 30
    first, second, third, _ = many_tables(4, timezone.now())  # Each committed an hour ago.
    Table.objects.filter(pk__in=[first.pk, second.pk, third.pk]).update(namespace="near")
    for scope, amount in (
        (Scope(), 240),
        (Scope(namespace="near"), 120),
        (Scope(table=second), 600),
        (Scope(table=third), 0),
    ):
        do_set_threshold("commit-sla", amount, scope=scope, by=admin)

    near = as_viewer.get("/tables/export?as=json&sort=-freshness").json()["rows"]
    rows = {row["slug"]: row for row in as_viewer.get("/api/v1/tables/").json()["results"]}
    HealthThreshold.objects.all().delete()
    default = compact(as_viewer.get("/tables/").content.decode())
    late = listed(as_viewer, "?show=late")
    as_viewer.post("/tables/columns", {"column": ["freshness"]})
    percent = compact(as_viewer.get("/tables/").content.decode()).replace(" ", "")
    settings.SLUICE_FRESHNESS_TARGET_MIN = 0
    off = as_viewer.get("/api/v1/tables/lake-0000/").json()

    shares = {row["slug"]: row["freshness"] and round(row["freshness"], 2) for row in near}
    assert shares == {"lake-0000": 0.5, "lake-0001": 0.1, "lake-0002": None, "lake-0003": 0.25}
    targets = [rows[slug]["freshness_target_min"] for slug in sorted(rows)]
    assert targets == [120, 600, None, 240]
    assert "of 30 min" in default
    assert "tone-warn" not in default.partition("of-commit")[2].partition("</td>")[0]
    assert ">200%<" in percent
    assert "The default target raises no alert." in default
    assert late == []
    assert (off["freshness_target_min"], off["is_default_target"]) == (None, False)


def test_a_description_is_one_paragraph_that_is_searched_and_shown(
    as_admin: Client, as_viewer: Client, trips: Table, orders: Table
) -> None:
    body = {"description": "Rides of the\r\n  <b>north</b>", "reason": "asked"}

    answer = as_admin.patch("/api/v1/tables/trips/", body, content_type="application/json")
    too_long = as_admin.post(
        "/t/trips/settings",
        {
            "slug": "trips", "namespace": "default", "location": trips.location, "reason": "asked",
            "description": "x" * 501, "idempotency_key": str(uuid.uuid4()),
        },
    )  # fmt: skip
    as_viewer.post("/tables/columns", {"column": ["description"]})

    assert answer.json()["description"] == "Rides of the <b>north</b>"
    assert too_long.status_code == 422
    assert AuditEvent.objects.get(what="table.label").details["description_before"] == ""
    assert listed(as_viewer, "?q=RIDES") == ["trips"]
    matches = as_viewer.get("/api/v1/tables/?search=rides").json()
    assert [row["slug"] for row in matches["results"]] == ["trips"]
    markup = "Rides of the &lt;b&gt;north&lt;/b&gt;"
    for page in ("/tables/", "/t/trips/", "/t/trips/settings"):
        assert markup in as_viewer.get(page).content.decode(), page


def test_times_are_written_in_the_zone_that_a_person_chose(
    as_viewer: Client, busy: Table, viewer: User
) -> None:
    as_viewer.post("/preferences", {"zone": "named", "name": "Asia/Tokyo"})
    page = compact(as_viewer.get("/operations").content.decode())
    again = Client()
    again.force_login(viewer)

    assert "JST</small>" in page
    assert "UTC</small>" not in page
    assert "JST</small>" in compact(again.get("/operations").content.decode())
    again.cookies["sluice_zone"] = "Europe/Oslo"
    again.post("/preferences", {"zone": "browser"})
    assert re.search(r"CES?T</small>", compact(again.get("/operations").content.decode()))
    again.cookies["sluice_zone"] = "../../etc/passwd"
    assert "UTC</small>" in compact(again.get("/operations").content.decode())
    nowhere = {"zone": "named", "name": "Mars/Base"}
    assert as_viewer.post("/preferences", nowhere).status_code == 400


def test_columns_of_files_and_compactions_count_what_the_mirror_has(as_viewer: Client) -> None:
    now = timezone.now()
    first, second = many_tables(2, now)
    InstantRecord.objects.create(
        table=first, requested_at=instant(now, seconds=9_000), action="commit", state="completed",
        completed_at=instant(now, seconds=2.5 * 3_600),
    )  # fmt: skip
    FileGroupRecord.objects.filter(table=first).update(base_bytes=5)
    FileGroupRecord.objects.filter(table=second).update(base_bytes=SMALL_FILE_BYTES, base_rows=7)
    store_file_totals(first, FileGroupRecord.objects.filter(table=first))
    store_file_totals(second, FileGroupRecord.objects.filter(table=second))

    rows = as_viewer.get("/tables/export?as=json&sort=-deltas").json()["rows"]

    counts = {row["slug"]: (row["small"], row["deltas"]) for row in rows}
    assert counts == {"lake-0000": (1, 2), "lake-0001": (0, 4)}
    assert [row["slug"] for row in rows] == ["lake-0001", "lake-0000"]
    assert [row["base_rows"] for row in rows] == [7, None]
    assert [
        row["slug"] for row in as_viewer.get("/tables/export?as=json&sort=base_rows").json()["rows"]
    ] == ["lake-0000", "lake-0001"]
    assert rows[0]["compaction"] is None
    assert rows[1]["compaction"]
