"""What the endpoints answer: pages by cursor, errors in one form, a rollback from plan to job."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings
from rest_framework.throttling import ScopedRateThrottle

from controlplane.mirror.models import InstantRecord
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_request_write
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.controlplane.lake import OPTIMISTIC, Lake
from workers.reporting.tokens import build_report_token

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
BERGEN = {"id": "1", "ts": 2, "city": "Bergen"}
QUERIES_MAX = 12


def post(client: Client, address: str, body: object, **headers: str) -> Any:
    return client.post(address, body, "application/json", headers=headers)


def make_instants(table: Table, count: int) -> None:
    InstantRecord.objects.bulk_create(
        InstantRecord(
            table=table,
            requested_at=f"202601010000{number:05d}",
            action="deltacommit" if number % 2 else "rollback",
            state="completed",
            completed_at=f"202601010001{number:05d}",
        )
        for number in range(count)
    )


def test_instants_come_in_pages_each_once_newest_first(
    client: Client, viewer: User, synced: Table
) -> None:
    synced.instants.all().delete()
    make_instants(synced, 25)
    client.force_login(viewer)

    seen: list[str] = []
    cursor, pages = "", 0
    while True:
        answer = client.get(
            "/api/v1/tables/trips/instants/", {"limit": 10} | ({"cursor": cursor} if cursor else {})
        ).json()
        seen += [row["requested_at"] for row in answer["results"]]
        pages += 1
        if (cursor := answer["next_cursor"]) is None:
            break

    assert pages == 3
    assert seen == sorted(set(seen), reverse=True)
    assert len(seen) == 25


def test_instants_are_filtered_on_the_server(client: Client, viewer: User, synced: Table) -> None:
    synced.instants.all().delete()
    make_instants(synced, 10)
    client.force_login(viewer)

    answer = client.get("/api/v1/tables/trips/instants/?actions=rollback&states=completed").json()

    assert {row["action"] for row in answer["results"]} == {"rollback"}
    assert len(answer["results"]) == 5


@pytest.mark.parametrize(
    "query",
    ["actions=drop", "states=done", "since=yesterday", "cursor=%00", "limit=0", "color=red"],
)
def test_a_wrong_filter_is_an_error_in_one_form(
    client: Client, viewer: User, synced: Table, query: str
) -> None:
    client.force_login(viewer)

    response = client.get(f"/api/v1/tables/trips/instants/?{query}")

    assert response.status_code == 400
    assert set(response.json()) == {"type", "title", "status", "detail", "code", "values"}
    assert response.json()["code"] == "invalid_request"


def test_every_operation_of_a_write_is_taken_and_what_takes_data_away_by_its_plan_only(
    client: Client, admin: User, lake: Lake, tmp_path: Path, settings: Settings
) -> None:
    lake.commit(OSLO)
    settings.SLUICE_SOURCE_ROOTS = (str(tmp_path),)
    (tmp_path / "rows.csv").write_text("id,ts,city\n1,9,Turku\n")
    source = {"kind": "csv", "path": f"{tmp_path}/rows.csv"}
    client.force_login(admin)
    operations, base = "/api/v1/tables/trips/operations/", "/api/v1/tables/trips/services/"

    plain = [
        post(client, operations, {"operation": one, "source": source}).json()["row"]["kind"]
        for one in ("upsert", "insert", "bulk_insert")
    ]
    unplanned, planned = [], []
    for kind in ("delete", "insert_overwrite", "insert_overwrite_table"):
        body = {"operation": kind, "source": source, "table_name": "trips", "reason": "why"}
        unplanned.append(post(client, operations, body).json()["code"])
        plan = post(client, f"{base}{kind}/plan/", {"parameters": {"path": source["path"]}}).json()
        answer = post(client, operations, body | {"plan_hash": plan["plan_hash"]})
        planned.append((answer.status_code, answer.json()["row"]["service"]))
    partition = post(client, operations, {"operation": "delete_partition", "partitions": ["x"]})

    assert plain == ["write"] * 3
    assert unplanned == ["plan_changed"] * 3
    assert planned == [(202, "delete"), (202, "insert_overwrite"), (202, "insert_overwrite_table")]
    assert partition.json()["code"] == "invalid_request"


def test_a_write_takes_the_settings_of_inline_services_and_checks_them(
    client: Client, admin: User, lake: Lake
) -> None:
    client.force_login(admin)
    body = {"source": {"kind": "csv", "path": "/data/x.csv"}, "operation": "upsert"}
    given = [
        {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"},
        {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "many"},
        {"hoodie.compact.outline": "true"},
    ]

    statuses = [
        post(client, "/api/v1/tables/trips/operations/", body | {"options": one}).status_code
        for one in given
    ]

    assert statuses == [202, 400, 400]


def test_a_rollback_from_plan_to_request(client: Client, admin: User, lake: Lake) -> None:
    instant = lake.commit(OSLO)
    sync_table(lake.row)
    client.force_login(admin)

    plan = post(client, "/api/v1/tables/trips/rollbacks/plan/", {"instant": instant}).json()
    body = {
        "instant": instant,
        "plan_hash": plan["plan_hash"],
        "reason": "wrong file",
        "table_name": "trips",
    }
    first = post(client, "/api/v1/tables/trips/rollbacks/", body, **{"Idempotency-Key": "k1"})
    again = post(client, "/api/v1/tables/trips/rollbacks/", body, **{"Idempotency-Key": "k1"})

    assert plan["blockers"] == []
    assert [first.status_code, again.status_code] == [202, 202]
    assert first.json()["row"]["id"] == again.json()["row"]["id"]
    assert Operation.objects.count() == 1


def test_rollbacks_are_asked_for_at_a_human_pace(
    client: Client, admin: User, synced: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScopedRateThrottle, "THROTTLE_RATES", {"rollback": "5/min"})
    client.force_login(admin)

    answers = [post(client, "/api/v1/tables/trips/rollbacks/", {}) for _ in range(6)]

    assert [answer.status_code for answer in answers] == [400] * 5 + [429]
    assert answers[-1].json()["code"] == "throttled"
    assert int(answers[-1].headers["Retry-After"]) > 0


def test_a_void_plan_is_a_conflict(client: Client, admin: User, lake: Lake) -> None:
    instant = lake.commit(OSLO)
    client.force_login(admin)
    body = {"instant": instant, "plan_hash": "0" * 16, "reason": "x", "table_name": "trips"}

    response = post(client, "/api/v1/tables/trips/rollbacks/", body)

    assert (response.status_code, response.json()["code"]) == (409, "plan_changed")


def test_state_and_owner_cannot_be_assigned(client: Client, admin: User, synced: Table) -> None:
    """Threat T13: what the serializer does not name is refused, not ignored."""
    client.force_login(admin)
    body = {"source": {"kind": "csv"}, "state": "succeeded", "requested_by": 1}

    response = post(client, "/api/v1/tables/trips/operations/", body)

    assert response.status_code == 400
    assert set(response.json()["values"]["fields"]) == {"state", "requested_by"}


def test_a_worker_reports_about_its_own_operation_with_its_token_and_about_no_other(
    client: Client, admin: User, synced: Table, settings: Settings
) -> None:
    parameters = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
    operation = do_request_write(table=synced, parameters=parameters, by=admin)
    body = {
        "operation_id": str(operation.pk),
        "state": "running",
        "pid": 4711,
        "progress": {"done": 0, "total": 3, "unit": "tasks"},
        "outcome": {"kind": "none"},
    }

    key = settings.SLUICE_WORKER_TOKEN
    tokens = [
        "wrong",
        key,
        f"{operation.pk}.{'0' * 64}",
        build_report_token("another key", str(operation.pk)),
        build_report_token(key, str(uuid.uuid4())),
        build_report_token(key, str(operation.pk)),
    ]

    answers = [
        post(client, "/api/v1/reports/operations", body, Authorization=f"Worker {token}")
        for token in tokens
    ]

    assert [one.status_code for one in answers] == [401, 401, 401, 401, 403, 204]
    operation.refresh_from_db()
    assert (operation.state, operation.pid) == ("running", 4711)


def test_without_a_configured_worker_token_nobody_reports(
    client: Client, synced: Table, settings: Settings
) -> None:
    settings.SLUICE_WORKER_TOKEN = ""

    response = post(client, "/api/v1/reports/operations", {}, Authorization="Worker ")

    assert response.status_code == 401


def test_a_token_is_shown_once_works_and_can_be_revoked(client: Client, viewer: User) -> None:
    client.force_login(viewer)
    made = post(client, "/api/v1/tokens/", {"days": 1}).json()
    client.logout()
    with_token = {"Authorization": f"Token {made['token']}"}

    assert client.get("/api/v1/tables/", headers=with_token).status_code == 200
    listed = client.get("/api/v1/tokens/", headers=with_token).json()
    assert [row["id"] for row in listed] == [made["id"]]
    assert "token" not in listed[0]

    gone = client.delete(f"/api/v1/tokens/{made['id']}/", headers=with_token)
    assert gone.status_code == 204
    assert client.get("/api/v1/tables/", headers=with_token).status_code == 401


def test_nobody_revokes_another_persons_token(client: Client, viewer: User, admin: User) -> None:
    client.force_login(admin)
    made = post(client, "/api/v1/tokens/", {}).json()
    client.force_login(viewer)

    assert client.delete(f"/api/v1/tokens/{made['id']}/").status_code == 404


def test_conflicts_and_writers_are_read_with_both_names(
    client: Client, viewer: User, lake: Lake
) -> None:
    backfill = lake.begin(OSLO, writer="backfill", mode=OPTIMISTIC)
    lake.begin(BERGEN, writer="ingest", mode=OPTIMISTIC).commit()
    backfill.commit()
    sync_table(lake.row)
    client.force_login(viewer)

    (conflict,) = client.get("/api/v1/tables/trips/conflicts/").json()["results"]

    assert (conflict["loser_writer"], conflict["winner_writer"]) == ("backfill", "ingest")
    assert len(conflict["overlap"][0]) == 2
    assert client.get("/api/v1/tables/trips/conflicts/?kind=schema").json()["results"] == []


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    "address",
    [
        "/api/v1/tables/",
        "/api/v1/tables/trips/",
        "/api/v1/tables/trips/instants/?limit=500",
        "/api/v1/tables/trips/writers/",
        "/api/v1/tables/trips/conflicts/",
        "/api/v1/tables/trips/markers/",
        "/api/v1/tables/trips/streams/",
        "/api/v1/tables/trips/sinks/",
        "/api/v1/tables/trips/schemas/",
        "/api/v1/tables/trips/file-groups/",
        "/api/v1/tables/trips/partitions/",
        "/api/v1/tables/trips/services/",
        "/api/v1/tables/trips/services/history/",
        "/api/v1/tables/trips/savepoints/",
        "/api/v1/tables/trips/operations/",
        "/api/v1/operations/",
    ],
)
def test_the_number_of_queries_does_not_grow_with_the_rows(
    client: Client,
    viewer: User,
    admin: User,
    synced: Table,
    django_assert_max_num_queries: DjangoAssertNumQueries,
    address: str,
) -> None:
    make_instants(synced, 300)
    parameters = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
    for _ in range(20):
        do_request_write(table=synced, parameters=parameters, by=admin)
    for number in range(10):
        Table.objects.create(slug=f"t{number}", name="t", location=f"/t{number}")
    client.force_login(viewer)

    with django_assert_max_num_queries(QUERIES_MAX):
        response = client.get(address)

    assert response.status_code == 200


def test_a_service_goes_from_plan_to_job(
    client: Client, operator: User, synced: Table, lake: Lake
) -> None:
    lake.commit(BERGEN)
    client.force_login(operator)
    there = "/api/v1/tables/trips/services/compaction/"

    plan = post(client, f"{there}plan/", {}).json()
    void = post(client, there, {"plan_hash": "0" * 16})
    first = post(client, there, {"plan_hash": plan["plan_hash"]}, **{"Idempotency-Key": "k"})
    again = post(client, there, {"plan_hash": plan["plan_hash"]}, **{"Idempotency-Key": "k"})

    assert [item["effect"] for item in plan["items"]] == ["merge"]
    assert (void.status_code, void.json()["code"]) == (409, "plan_changed")
    assert first.status_code == again.status_code == 202
    assert first.json()["row"]["id"] == again.json()["row"]["id"]
    assert first.json()["row"]["service"] == "compaction"
    board = client.get("/api/v1/tables/trips/services/").json()
    assert board["backlog"]["delta_commits"] == 1
    assert "compaction" in {kind["name"] for kind in board["kinds"]}


def test_a_schedule_is_set_by_an_admin_and_an_unknown_service_is_refused(
    client: Client, admin: User, synced: Table
) -> None:
    client.force_login(admin)
    there = "/api/v1/tables/trips/services/{}/schedule/"
    body = {"enabled": True, "every_s": 60, "trigger_commits": 3}

    done = client.put(there.format("compaction"), body, "application/json")
    refused = client.put(there.format("restore"), body, "application/json")

    assert done.status_code == 200
    assert done.json() | body == done.json()
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")


def test_schemas_are_compared_by_their_instants(client: Client, viewer: User, lake: Lake) -> None:
    lake.commit(OSLO)
    lake.commit(OSLO | {"mayor": "Anne"})
    sync_table(lake.row)
    client.force_login(viewer)
    new, old = client.get("/api/v1/tables/trips/schemas/").json()

    changes = client.get(
        "/api/v1/tables/trips/schemas/diff/",
        {"before": old["instant"], "after": new["instant"]},
    ).json()

    assert [(one["name"], one["kind"]) for one in changes] == [("mayor", "added")]


def test_every_answer_carries_a_request_id(client: Client, viewer: User) -> None:
    client.force_login(viewer)

    given = client.get("/api/v1/tables/", headers={"X-Request-ID": "abcdef-12345"})
    forged = client.get("/api/v1/tables/", headers={"X-Request-ID": "a\tb<script>"})

    assert given.headers["X-Request-ID"] == "abcdef-12345"
    assert "<" not in forged.headers["X-Request-ID"]


def test_the_openapi_document_is_complete(client: Client, viewer: User) -> None:
    client.force_login(viewer)

    document = client.get("/api/v1/schema/?format=json").json()

    assert document["openapi"].startswith("3.")
    assert "/api/v1/tables/{slug}/rollbacks/" in document["paths"]
    assert "post" in document["paths"]["/api/v1/tables/{slug}/sinks/{sink_id}/stop/"]
