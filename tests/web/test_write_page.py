"""The page of one write: each kind of source, the look at it, the refusals, the operation."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from controlplane.audit.models import AuditEvent
from controlplane.connections.actions import (
    ConnectionWish,
    do_create_connection,
    do_grant_connection,
)
from controlplane.operations.models import Operation
from controlplane.tables.models import RowGrant, Table
from web.write_forms import SOURCES

PAGE = "/t/trips/write"


def sent(client: Client, kind: str, **words: str) -> tuple[int, str]:
    """The status, and where it leads or what the page says."""
    body = {"operation": "upsert", "idempotency_key": str(uuid.uuid4()), **words}
    answer = client.post(f"{PAGE}?kind={kind}", body)
    return answer.status_code, answer.get("Location", "") or answer.content.decode()


KAFKA = {"topic": "rides", "bootstrap": "localhost:9092", "format": "json"}


@pytest.mark.parametrize(
    ("kind", "words", "source"),
    [
        ("csv", {"path": "/data/a.csv", "missing": "-"}, {"path": "/data/a.csv", "missing": "-"}),
        ("json", {"path": "/data/a.json"}, {"path": "/data/a.json"}),
        ("parquet", {"path": "/data/a.parquet"}, {"path": "/data/a.parquet"}),
        ("kafka", {**KAFKA, "begins": "earliest"}, {**KAFKA, "start": "earliest"}),
        (
            "kafka",
            {**KAFKA, "begins": "offsets", "start": '{"0": 17}'},
            {**KAFKA, "start": '{"0": 17}'},
        ),
        (
            "kafka",
            {**KAFKA, "begins": "time", "start_at": "1970-01-01 00:01"},
            {**KAFKA, "start_at_ms": 60_000},
        ),
    ],
)
def test_each_kind_of_source_is_asked_for_as_the_form_says(
    as_admin: Client, trips: Table, kind: str, words: dict[str, str], source: dict[str, object]
) -> None:
    more = "hoodie.write.num.retries.on.conflict.failures = 2"

    status, there = sent(as_admin, kind, more=more, reason="a backfill", **words)

    operation = Operation.objects.get()
    job = operation.parameters["job"]
    assert (status, there) == (302, f"/t/trips/operations/{operation.pk}")
    assert job["source"] == {"kind": kind, **source}
    assert job["options"]["hoodie.write.num.retries.on.conflict.failures"] == "2"
    assert operation.reason == "a backfill"


def test_a_statement_is_looked_at_and_written(as_admin: Client, trips: Table) -> None:
    statement = "SELECT id + 100 AS id, city, ts, 1 AS extra FROM trips"

    looked, page = sent(as_admin, "sql", deed="preview", statement=statement)
    status, _ = sent(as_admin, "sql", statement="SELECT id, city, ts FROM trips")

    assert looked == 200
    assert "the whole source" in page
    assert "new column" in page
    assert AuditEvent.objects.filter(what="rows.read", object="trips").exists()
    assert status == 302
    assert Operation.objects.get().parameters["job"]["source"]["kind"] == "sql"


def test_files_and_rows_are_asked_for_by_a_connection(
    as_admin: Client, admin: User, trips: Table
) -> None:
    database = {"host": "127.0.0.1", "port": 1, "database": "erp", "username": "sluice"}
    for name, kind, settings in (
        ("drop", "s3", {"bucket": "drop", "prefix": "in"}),
        ("erp", "postgresql", database),
    ):
        wish = ConnectionWish(name=name, kind=kind, settings=settings)
        do_create_connection(wish, by=admin)
        do_grant_connection(name, [trips.namespace], by=admin)
    file = {"connection": "drop", "path": "2026/a.json"}
    query = {"connection": "erp", "query": "SELECT 1 AS id -- all"}

    assert "erp · 127.0.0.1:1/erp" in as_admin.get(f"{PAGE}?kind=postgresql").content.decode()
    assert [sent(as_admin, "json", **file)[0], sent(as_admin, "postgresql", **query)[0]] == [
        302
    ] * 2
    refused = {
        "Choose a connection": {"query": "SELECT 1"},
        "either a table or a query": {**query, "table": "public.orders"},
        "Select a valid choice": {**query, "connection": "drop"},
        "the database did not let the connection in": {**query, "deed": "preview"},
    }
    for said, words in refused.items():
        assert said in sent(as_admin, "postgresql", **words)[1]
    deletes = {**file, "operation": "delete"}
    assert "does not accept this" in sent(as_admin, "csv", **deletes)[1]

    sources = [one.parameters["job"]["source"] for one in Operation.objects.order_by("pk")]
    assert sorted(sources, key=str) == sorted(
        ({"kind": "json", **file}, {"kind": "postgresql", **query}), key=str
    )


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("kind", "words", "status", "said"),
    [
        ("csv", {}, 422, "Enter the path of the file."),
        ("csv", {"path": "/etc/passwd"}, 400, "outside the configured roots"),
        ("csv", {"path": "/data/none.csv", "deed": "preview"}, 400, "no such file"),
        ("csv", {"path": "/data/a.csv", "more": "nonsense"}, 422, "as key=value"),
        ("csv", {"path": "/data/a.csv", "more": "hoodie.no.key=1"}, 400, "hoodie.no.key"),
        ("csv", {"path": "/data/a.csv", "operation": "truncate"}, 422, "Select a valid choice"),
        ("json", {"path": "/data/a.json", "operation": "delete"}, 422, "Select a valid choice"),
        ("csv", {"path": "/data/a.csv", "operation": "delete", "missing": "-"}, 422, "not accept"),
        ("sql", {"statement": "DROP TABLE trips"}, 400, "statement-problem"),
        ("sql", {"statement": "SELECT * FROM nowhere"}, 400, "statement-problem"),
        ("sql", {"statement": "SELECT 1 AS a, 2 AS a", "deed": "preview"}, 400, "unique"),
        ("kafka", {**KAFKA, "begins": "offsets"}, 422, "Enter where the read starts."),
        ("kafka", {**KAFKA, "begins": "time", "start_at": "now"}, 422, "Enter a time as"),
        ("kafka", {**KAFKA, "begins": "offsets", "start": "x"}, 400, "offsets"),
    ],
)
def test_what_is_refused_stands_at_the_form_and_nothing_is_asked_for(
    as_admin: Client, trips: Table, kind: str, words: dict[str, str], status: int, said: str
) -> None:
    answer, page = sent(as_admin, kind, **words)

    assert answer == status
    assert said in page
    assert not Operation.objects.exists()


def test_what_takes_data_away_leads_to_its_plan(as_admin: Client, trips: Table) -> None:
    words = {"path": "/data/a.csv", "missing": "-"}

    _, there = sent(as_admin, "csv", operation="insert_overwrite", **words)

    assert there == "/t/trips/services/run/insert_overwrite?path=%2Fdata%2Fa.csv&missing=-"
    assert not Operation.objects.exists()


def test_a_file_is_shown_beside_the_table(
    as_admin: Client, trips: Table, tmp_path: Path, settings: Settings
) -> None:
    settings.SLUICE_SOURCE_ROOTS = (str(tmp_path),)
    (tmp_path / "new.csv").write_text("id,city,ts,note\n1,Oslo,7,hi\n")

    status, page = sent(as_admin, "csv", deed="preview", path=f"{tmp_path}/new.csv")

    assert status == 200
    assert "The columns fit the table" in page
    assert page.count("new column</span>") == 1
    assert f'value="{tmp_path}/new.csv"' in page


def test_what_the_form_says_is_handed_on_to_a_schedule(as_admin: Client, trips: Table) -> None:
    _, there = sent(as_admin, "parquet", deed="schedule", path="/data/a.parquet")

    handed = json.loads(parse_qs(urlsplit(there).query)["parameters"][0])
    source = {"kind": "parquet", "path": "/data/a.parquet"}
    assert handed == {"source": source, "operation": "upsert"}
    assert "/data/a.parquet" in as_admin.get(there).content.decode()


@pytest.mark.parametrize(
    ("kind", "words", "texts"),
    [
        ("csv", {"path": "/data/a.csv", "missing": "-"}, ["/data/a.csv", "-"]),
        (
            "sql",
            {"statement": "SELECT id, city, ts FROM trips"},
            ["SELECT id, city, ts FROM trips"],
        ),
        (
            "kafka",
            {**KAFKA, "begins": "offsets", "start": '{"0": 17}'},
            ["rides", "&quot;0&quot;: 17"],
        ),
        (
            "kafka",
            {**KAFKA, "begins": "time", "start_at": "2026-01-31 14:00"},
            ["2026-01-31 14:00"],
        ),
    ],
)
def test_an_ended_write_runs_again_from_a_filled_form(
    as_admin: Client, trips: Table, kind: str, words: dict[str, str], texts: list[str]
) -> None:
    sent(as_admin, kind, more="sluice.writer.name=loader", **words)
    Operation.objects.update(state="failed")
    first = Operation.objects.get()
    link = f"{PAGE}?again={first.pk}"

    assert link in as_admin.get(f"/t/trips/operations/{first.pk}").content.decode()
    page = as_admin.get(link).content.decode()
    status, _ = sent(as_admin, kind, again=str(first.pk), more="", **words)

    assert all(text in page for text in [*texts, "sluice.writer.name=loader"])
    second = Operation.objects.exclude(pk=first.pk).get()
    assert (status, second.again_of_id) == (302, first.pk)
    assert second.parameters["job"]["source"] == first.parameters["job"]["source"]
    assert "sluice.writer.name" not in second.parameters["job"]["options"]


def test_a_hidden_statement_does_not_fill_the_form(
    as_admin: Client, as_viewer: Client, trips: Table, orders: Table
) -> None:
    sent(as_admin, "sql", statement="SELECT id, city, ts FROM trips WHERE city = 'Bergen'")
    operation = Operation.objects.get()
    RowGrant.objects.all().delete()

    page = as_viewer.get(f"{PAGE}?again={operation.pk}")

    assert page.status_code == 200
    assert b"Bergen" not in page.content
    for slug, key in (("orders", operation.pk), ("trips", uuid.uuid4()), ("trips", "x")):
        assert as_admin.get(f"/t/{slug}/write?again={key}").status_code == 404


def test_the_same_form_sent_twice_is_one_write(as_admin: Client, trips: Table) -> None:
    words = {"path": "/data/a.csv", "idempotency_key": str(uuid.uuid4())}

    first, second = (sent(as_admin, "csv", **words) for _ in range(2))

    assert first == second
    assert Operation.objects.count() == 1


@pytest.mark.parametrize("kind", SOURCES)
def test_whoever_may_not_write_sees_the_form_locked(
    as_viewer: Client, trips: Table, kind: str
) -> None:
    page = as_viewer.get(f"{PAGE}?kind={kind}").content.decode()

    assert "Writing requires the <strong>operator</strong> role (yours: viewer)" in page
    assert '<fieldset class="form-groups" disabled>' in page


def test_a_preview_names_each_conversion_and_the_option_that_a_file_needs(
    as_admin: Client, trips: Table, tmp_path: Path, settings: Settings
) -> None:
    settings.SLUICE_SOURCE_ROOTS = (str(tmp_path),)
    (tmp_path / "new.csv").write_text("id;city;ts;Unit Price\n1;Oslo;7,0;1,5\n")
    words = {"path": f"{tmp_path}/new.csv", "delimiter": ";", "decimal_comma": "true"}

    _, page = sent(as_admin, "csv", deed="preview", **words)

    assert "<code>names=clean</code>" in page
    assert "1 value of ts: a whole number written with a fraction" in page
    assert "Unit_Price" in page

    status, _ = sent(as_admin, "csv", **words, names="clean")
    again, _ = sent(as_admin, "csv", path=f"{tmp_path}/new.csv")
    sources = [row.parameters["job"]["source"] for row in Operation.objects.order_by("pk")]
    assert (status, again) == (302, 302)
    assert {source["names"] for source in sources} == {"clean"}
    assert {source["delimiter"] for source in sources} == {";"}
