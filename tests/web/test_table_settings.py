"""The settings of a table, taking it off the register, registering one, and the list's filter."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from controlplane.operations.actions import do_request_write
from controlplane.operations.models import ServiceSetting
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from workers.options.table_keys import TABLE_OPTIONS
from workers.options.write_keys import WRITE_OPTIONS

KEY = "11111111-1111-4111-8111-111111111111"


def settings_of(table: Table, **changed: str) -> dict[str, str]:
    return {
        "name": table.name, "slug": table.slug, "namespace": table.namespace,
        "location": table.location, "reason": "new words", "idempotency_key": KEY, **changed,
    }  # fmt: skip


def test_what_is_registered_is_changed_and_the_page_goes_on_under_the_new_slug(
    as_admin: Client, trips: Table
) -> None:
    wanted = settings_of(trips, slug="rides", namespace="sales")

    answer = as_admin.post("/t/trips/settings", wanted, follow=True)

    assert answer.redirect_chain == [("/t/rides/settings", 302)]
    assert 'value="sales"' in answer.content.decode()
    assert as_admin.get("/t/trips/settings").status_code == 307


def test_a_refusal_stands_beside_its_field_and_what_was_typed_stays(
    as_admin: Client, trips: Table, orders: Table
) -> None:
    answer = as_admin.post("/t/trips/settings", settings_of(trips, slug="orders", name="Rides"))

    text = answer.content.decode()
    assert answer.status_code == 400
    assert re.search(r'id="slug-problem">The slug is already used', text)
    assert 'value="Rides"' in text
    assert not Table.objects.filter(name="Rides").exists()


def test_what_runs_is_named_with_a_link_and_the_button_is_off(
    as_admin: Client, admin: User, trips: Table
) -> None:
    source = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
    operation = do_request_write(table=trips, parameters=source, by=admin)
    ServiceSetting.objects.create(table=trips, service="clean", is_enabled=True)

    shown = as_admin.get("/t/trips/settings/unregister").content.decode()
    words = {"typed_name": "trips", "reason": "x", "idempotency_key": KEY}
    refused = as_admin.post("/t/trips/settings/unregister", words)

    assert f'href="/t/trips/operations/{operation.pk}"' in shown
    assert 'href="/t/trips/services/settings/clean"' in shown
    assert re.search(r'class="danger" type="submit"\s+disabled', shown)
    assert refused.status_code == 409
    assert Table.objects.exists()


def test_unregistering_shows_what_goes_and_needs_the_name_typed(
    as_admin: Client, trips: Table, root: Path
) -> None:
    shown = as_admin.get("/t/trips/settings/unregister").content.decode()
    words = {"typed_name": "tips", "reason": "moved out", "idempotency_key": KEY}
    wrong = as_admin.post("/t/trips/settings/unregister", words)
    done = as_admin.post(
        "/t/trips/settings/unregister", {**words, "typed_name": "trips"}, follow=True
    )

    assert "instants" in shown
    assert wrong.status_code == 422
    assert "This is not the table" in wrong.content.decode()
    assert f"Files kept: {root}/trips" in done.content.decode()
    assert not Table.objects.exists()
    assert (root / "trips" / ".hoodie" / "hoodie.properties").exists()


def test_a_table_is_registered_by_the_page(as_admin: Client, admin: User, root: Path) -> None:
    do_register_table(location=f"{root}/one", slug="one", by=admin)
    words = {"name": "Rides", "slug": "rides", "namespace": "sales"}

    inside = as_admin.post("/tables/register", {**words, "location": f"{root}/one/rides"})
    done = as_admin.post("/tables/register", {**words, "location": f"{root}/rides"})

    assert inside.status_code == 400
    assert re.search(r'id="location-problem">\s*The location overlaps', inside.content.decode())
    assert done["Location"] == "/t/rides/"
    assert Table.objects.get(slug="rides").namespace == "sales"


def test_the_list_is_filtered_by_namespace_and_keeps_the_search(
    as_admin: Client, admin: User, root: Path
) -> None:
    for slug, namespace in (("rides", "sales"), ("rents", "sales"), ("roads", "default")):
        do_register_table(location=f"{root}/{slug}", slug=slug, namespace=namespace, by=admin)

    everything = as_admin.get("/tables/?q=ri").content.decode()
    filtered = as_admin.get("/tables/rows?namespace=sales").content.decode()
    both = as_admin.get("/tables/rows?namespace=sales&q=rid").content.decode()
    none = as_admin.get("/tables/rows?namespace=elsewhere").content.decode()

    assert 'href="/tables/?q=ri&amp;namespace=sales"' in everything
    assert re.findall(r'data-key="(\w+)"', filtered) == ["rents", "rides"]
    assert re.findall(r'data-key="(\w+)"', both) == ["rides"]
    assert "No table" in none
    assert "elsewhere" in none


def test_a_viewer_sees_the_settings_and_no_way_to_register(as_viewer: Client, trips: Table) -> None:
    assert "table-register" not in as_viewer.get("/tables/").content.decode()
    assert "/tables/register" not in as_viewer.get("/tables/").content.decode()
    assert "requires the" in as_viewer.get("/t/trips/settings").content.decode()


def test_a_file_fills_the_form_and_the_table_is_made_of_what_the_form_says(
    as_admin: Client, root: Path, tmp_path: Path, settings: Settings
) -> None:
    settings.SLUICE_SOURCE_ROOTS = (str(tmp_path),)
    (tmp_path / "rides.csv").write_text("id,city\n1,Oslo\n2,Oslo\n")

    shown = as_admin.get(f"/tables/create?path={tmp_path}/rides.csv").content.decode()
    words = {
        "slug": "rides", "namespace": "sales", "location": f"{root}/rides",
        "columns": "id bigint not null\n\ncity string,", "record_key": "id",
        "table_type": "MERGE_ON_READ", "idempotency_key": KEY,
    }  # fmt: skip
    made = as_admin.post("/tables/create", words, follow=True)

    assert "id bigint\ncity string</textarea>" in shown
    assert re.search(r'name="record_key"[^>]*value="id"', shown)
    assert made.redirect_chain == [("/t/rides/", 302)]
    assert "created. It is empty" in made.content.decode()
    assert (root / "rides" / ".hoodie" / "hoodie.properties").exists()


def test_a_statement_fills_the_form_and_leads_to_its_first_write(
    as_admin: Client, root: Path, trips: Table
) -> None:
    statement = "SELECT id, city, ts + 1 AS next FROM trips"
    look = {"deed": "look", "statement": statement, "record_key": "city"}

    shown = as_admin.post("/tables/create", look).content.decode()
    words = {
        "slug": "rides", "namespace": "sales", "location": f"{root}/rides",
        "columns": "id bigint", "record_key": "id", "table_type": "COPY_ON_WRITE",
        "idempotency_key": KEY, "source_statement": statement,
    }  # fmt: skip
    made = as_admin.post("/tables/create", words)
    refused = as_admin.post("/tables/create", {"deed": "look", "statement": "SELECT"})

    assert "id bigint\ncity string\nnext bigint</textarea>" in shown
    assert "1 of 9" in shown  # The key that was to be tried.
    assert "unique: 9" in shown
    assert made["Location"].startswith("/t/rides/write?kind=sql&statement=SELECT")
    assert refused.status_code == 400
    assert 'id="statement-problem"' in refused.content.decode()


def test_what_is_wrong_with_a_new_table_stands_beside_its_fields(
    as_admin: Client, root: Path
) -> None:
    words = {
        "slug": "rides", "namespace": "sales", "location": "/etc/rides", "columns": "id strange",
        "record_key": "key", "table_type": "COPY_ON_WRITE", "idempotency_key": KEY,
    }  # fmt: skip

    refused = as_admin.post("/tables/create", words)

    text = refused.content.decode()
    assert refused.status_code == 400
    for field in ("location", "columns", "record_key"):
        assert f'id="{field}-problem"' in text
    assert "id strange</textarea>" in text
    assert not Table.objects.exists()


def test_effective_settings_have_a_value_and_a_source_for_every_option(
    as_viewer: Client, trips: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips.properties |= {
        "hoodie.bucket.index.num.buckets": "4", "sluice.jdbc.password": "hunter-2-hunter",
    }  # fmt: skip
    trips.save()
    ServiceSetting.objects.create(
        table=trips, service="clean", parameters={"hoodie.clean.commits.retained": "3"}
    )
    monkeypatch.setenv("SLUICE_LOCK_URL", "postgres://sluice:hunter-2-hunter@db/locks")

    rows = as_viewer.get("/api/v1/tables/trips/settings/").json()
    page = as_viewer.get("/t/trips/settings/effective").content.decode()

    by_key = {row["key"]: (row["value"], row["source"]) for row in rows}
    assert by_key["hoodie.bucket.index.num.buckets"] == ("4", "table property")
    assert by_key["hoodie.clean.commits.retained"] == ("3", "service setting")
    assert by_key["sluice.lock.url"] == ("set", "node setting")
    assert by_key["hoodie.table.name"] == ("trips", "table property")
    assert by_key["sluice.writer.name"] == ("", "default")
    assert "hunter-2" not in page + json.dumps(rows)
    assert "hoodie.clean.commits.retained" in page
    assert {*TABLE_OPTIONS, *WRITE_OPTIONS} <= set(by_key)
