"""Every route against every role. The list of routes comes from the URLconf, so a new one fails
until it is listed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, reverse
from django.utils import timezone
from pytest_django import Settings

from controlplane.api.urls import urlpatterns
from controlplane.audit.models import AuditEvent
from controlplane.connections.models import Connection
from controlplane.mirror.storage import storage_of
from controlplane.mirror.sync import sync_table
from controlplane.monitoring.models import Alert, Channel
from controlplane.operations.actions import do_request_write
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.controlplane.approvals import awaiting
from tests.support.role_places import OF_PLACES, people_of_places, undone
from tests.support.schedules import nightly
from tests.support.sinks import SINK, stuck_state
from workers.reporting.tokens import build_report_token
from workers.sink.state_file import put_state

# Route, method, then the status for: anonymous, no role, viewer, operator, admin, worker token;
# and for auditor, operator by a group alone, viewer, operator and admin of this table alone, admin
# of another table. Each request finds what the others found.
MATRIX = """
schema                 GET    401 403 200 200 200 401 200 200 200 200 200 200
docs                   GET    401 403 200 200 200 401 200 200 200 200 200 200
home                   GET    401 403 200 200 200 401 200 200 200 200 200 200
home_hours             GET    401 403 200 200 200 401 200 200 200 200 200 200
tables                 GET    401 403 200 200 200 401 200 200 200 200 200 200
tables                 POST   401 403 403 403 400 401 403 403 403 403 403 403
table                  GET    401 403 200 200 200 401 200 200 200 200 200 404
table                  PATCH  401 403 403 403 400 401 403 403 403 403 400 404
table                  DELETE 401 403 403 403 400 401 403 403 403 403 400 404
unregister_plan        GET    401 403 200 200 200 401 200 200 200 200 200 404
new_tables             POST   401 403 403 403 400 401 403 403 403 403 403 403
new_table_suggestion   POST   401 403 403 403 400 401 403 403 403 403 403 403
events                 GET    401 403 503 503 503 401 503 503 503 503 503 503
table_events           GET    401 403 503 503 503 401 503 503 503 503 503 404
instants               GET    401 403 200 200 200 401 200 200 200 200 200 404
instant                GET    401 403 200 200 200 401 200 200 200 200 200 404
schemas                GET    401 403 200 200 200 401 200 200 200 200 200 404
schema_diff            GET    401 403 400 400 400 401 400 400 400 400 400 404
partitions             GET    401 403 200 200 200 401 200 200 200 200 200 404
file_groups            GET    401 403 200 200 200 401 200 200 200 200 200 404
file_group             GET    401 403 200 200 200 401 200 200 200 200 200 404
services               GET    401 403 200 200 200 401 200 200 200 200 200 404
service_runs           GET    401 403 200 200 200 401 200 200 200 200 200 404
service                POST   401 403 403 409 409 401 403 409 403 409 409 404
service_plan           POST   401 403 200 200 200 401 200 200 200 200 200 404
service_schedule       GET    401 403 200 200 200 401 200 200 200 200 200 404
service_schedule       PUT    401 403 403 403 400 401 403 403 403 403 400 404
savepoints             GET    401 403 200 200 200 401 200 200 200 200 200 404
markers                GET    401 403 200 200 200 401 200 200 200 200 200 404
marker_directories     GET    401 403 200 200 200 401 200 200 200 200 200 404
marker_tree            GET    401 403 404 404 404 401 404 404 404 404 404 404
lock                   GET    401 403 200 200 200 401 200 200 200 200 200 404
lock_waits             GET    401 403 200 200 200 401 200 200 200 200 200 404
writers_activity       GET    401 403 200 200 200 401 200 200 200 200 200 404
writer_abort           POST   401 403 403 400 400 401 403 400 403 400 400 404
streams                GET    401 403 200 200 200 401 200 200 200 200 200 404
streams                POST   401 403 403 403 400 401 403 403 403 403 400 404
streams_join           GET    401 403 200 200 200 401 200 200 200 200 200 404
stream_rounds          GET    401 403 200 200 200 401 200 200 200 200 200 404
stream_commits         GET    401 403 200 200 200 401 200 200 200 200 200 404
stream_cell            GET    401 403 400 400 400 401 400 400 400 400 400 404
sinks                  GET    401 403 200 200 200 401 200 200 200 200 200 404
sinks                  POST   401 403 403 400 400 401 403 400 403 400 400 404
sink                   GET    401 403 200 200 200 401 200 200 200 200 200 404
sink_participants      GET    401 403 200 200 200 401 200 200 200 200 200 404
sink_transactions      GET    401 403 200 200 200 401 200 200 200 200 200 404
sink_trace             GET    401 403 200 200 200 401 200 200 200 200 200 404
sink_letters           GET    401 403 200 200 200 401 200 200 200 200 200 404
sink_letter            GET    401 403 404 404 404 401 404 404 404 404 404 404
sink_letters_replay    POST   401 403 403 403 400 401 403 403 403 403 400 404
sink_reset_plan        POST   401 403 403 403 400 401 403 403 403 403 400 404
sink_reset             POST   401 403 403 403 400 401 403 403 403 403 400 404
sink_stop              POST   401 403 403 202 202 401 403 202 403 202 202 404
sink_relaunch          POST   401 403 403 409 409 401 403 409 403 409 409 404
writers                GET    401 403 200 200 200 401 200 200 200 200 200 404
conflicts              GET    401 403 200 200 200 401 200 200 200 200 200 404
conflict               GET    401 403 404 404 404 401 404 404 404 404 404 404
table_operations       GET    401 403 200 200 200 401 200 200 200 200 200 404
table_operations       POST   401 403 403 400 400 401 403 400 403 400 400 404
schedules              GET    401 403 200 200 200 401 200 200 200 200 200 200
schedule_days          GET    401 403 200 200 200 401 200 200 200 200 200 200
trends                 GET    401 403 200 200 200 401 200 200 200 200 200 404
table_settings         GET    401 403 200 200 200 401 200 200 200 200 200 404
table_schedules        GET    401 403 200 200 200 401 200 200 200 200 200 404
table_schedules        POST   401 403 403 400 400 401 403 400 403 400 400 404
schedule               GET    401 403 200 200 200 401 200 200 200 200 200 404
schedule               PUT    401 403 403 400 400 401 403 400 403 400 400 404
schedule               DELETE 401 403 403 204 204 401 403 204 403 204 204 404
schedule_pause         POST   401 403 403 400 400 401 403 400 403 400 400 404
schedule_runs          GET    401 403 200 200 200 401 200 200 200 200 200 404
source_preview         POST   401 403 403 400 400 401 403 400 403 400 400 404
overwrite_plan         POST   401 403 403 400 400 401 403 400 403 400 400 404
rollback_plan          POST   401 403 403 403 400 401 403 403 403 403 400 404
rollbacks              POST   401 403 403 403 400 401 403 403 403 403 400 404
operations             GET    401 403 200 200 200 401 200 200 200 200 200 200
operation              GET    401 403 200 200 200 401 200 200 200 200 200 404
operation_again        POST   401 403 403 409 409 401 403 409 403 409 409 404
operation_log          GET    401 403 200 200 200 401 200 200 200 200 200 404
operation_log_download GET    401 403 200 200 200 401 200 200 200 200 200 404
approvals              GET    401 403 200 200 200 401 200 200 200 200 200 200
approval               GET    401 403 200 200 200 401 200 200 200 200 200 404
approval_approve       POST   401 403 403 403 400 401 403 403 403 403 400 404
approval_decline       POST   401 403 403 403 400 401 403 403 403 403 400 404
approval_rules         GET    401 403 200 200 200 401 200 200 200 200 200 200
approval_rule          PUT    401 403 403 403 400 401 403 403 403 403 403 403
table_approval_rules   GET    401 403 200 200 200 401 200 200 200 200 200 404
table_approval_rule    PUT    401 403 403 403 400 401 403 403 403 403 400 404
operation_cancel       POST   401 403 403 202 202 401 403 202 403 202 202 404
sql                    POST   401 403 400 400 400 401 400 400 400 400 400 400
sql_cancel             POST   401 403 400 400 400 401 400 400 400 400 400 400
sql_runs               GET    401 403 200 200 200 401 200 200 200 200 200 200
saved_queries          GET    401 403 200 200 200 401 200 200 200 200 200 200
saved_queries          POST   401 403 400 400 400 401 400 400 400 400 400 400
saved_query            GET    401 403 404 404 404 401 404 404 404 404 404 404
saved_query            PUT    401 403 400 400 400 401 400 400 400 400 400 400
saved_query            DELETE 401 403 404 404 404 401 404 404 404 404 404 404
rows                   GET    401 403 200 200 200 401 200 200 200 200 200 404
rows_plan              GET    401 403 200 200 200 401 200 200 200 200 200 404
rows_export            GET    401 403 200 200 200 401 200 200 200 200 200 404
row_history            GET    401 403 400 400 400 401 400 400 400 400 400 404
row_differences        GET    401 403 400 400 400 401 400 400 400 400 400 404
instant_changes        GET    401 403 200 200 200 401 200 200 200 200 200 404
marker_server          GET    401 403 200 200 200 401 200 200 200 200 200 200
marker_server_restart  POST   401 403 403 403 409 401 403 403 403 403 403 403
audit                  GET    401 403 403 403 200 401 200 403 403 403 403 403
audit_chain            GET    401 403 403 403 200 401 200 403 403 403 403 403
audit_export           GET    401 403 403 403 200 401 200 403 403 403 403 403
audit_event            GET    401 403 403 403 200 401 200 403 403 403 403 403
alerts                 GET    401 403 200 200 200 401 200 200 200 200 200 200
alert                  GET    401 403 200 200 200 401 200 200 200 200 200 404
alert_silence          POST   401 403 403 400 400 401 403 400 403 400 400 404
alert_silence          DELETE 401 403 403 204 204 401 403 204 403 204 204 404
alert_rules            GET    401 403 200 200 200 401 200 200 200 200 200 200
alert_rule             GET    401 403 200 200 200 401 200 200 200 200 200 200
alert_rule             PUT    401 403 403 403 400 401 403 403 403 403 403 403
thresholds             GET    401 403 200 200 200 401 200 200 200 200 200 200
threshold              GET    401 403 200 200 200 401 200 200 200 200 200 200
threshold              PUT    401 403 403 403 400 401 403 403 403 403 403 403
table_health           GET    401 403 200 200 200 401 200 200 200 200 200 404
table_thresholds       GET    401 403 200 200 200 401 200 200 200 200 200 404
table_threshold        GET    401 403 200 200 200 401 200 200 200 200 200 404
table_threshold        PUT    401 403 403 403 400 401 403 403 403 403 400 404
connections            GET    401 403 403 200 200 401 403 200 403 200 200 200
connections            POST   401 403 403 403 400 401 403 403 403 403 403 403
connection             GET    401 403 403 200 200 401 403 200 403 200 200 404
connection             PUT    401 403 403 403 400 401 403 403 403 403 403 403
connection_grants      PUT    401 403 403 403 400 401 403 403 403 403 403 403
connection_test        POST   401 403 403 403 200 401 403 403 403 403 403 403
connection             DELETE 401 403 403 403 204 401 403 403 403 403 403 403
channels               GET    401 403 403 403 200 401 403 403 403 403 403 403
channels               POST   401 403 403 403 400 401 403 403 403 403 403 403
channel_messages       GET    401 403 403 403 200 401 403 403 403 403 403 403
channel                GET    401 403 403 403 200 401 403 403 403 403 403 403
channel                PUT    401 403 403 403 400 401 403 403 403 403 403 403
channel_test           POST   401 403 403 403 202 401 403 403 403 403 403 403
channel                DELETE 401 403 403 403 204 401 403 403 403 403 403 403
bulk_cancel            POST   401 403 400 400 400 401 400 400 400 400 400 400
bulk_service           POST   401 403 400 400 400 401 400 400 400 400 400 400
bulk_silence           POST   401 403 400 400 400 401 400 400 400 400 400 400
bulk_tags              POST   401 403 400 400 400 401 400 400 400 400 400 400
bulk_tables            POST   401 403 403 403 400 401 403 403 403 403 403 403
grants                 GET    401 403 200 200 200 401 200 200 200 200 200 200
grants                 POST   401 403 403 403 400 401 403 403 403 403 403 403
grant                  GET    401 403 404 404 404 401 404 404 404 404 404 404
grant                  DELETE 401 403 403 403 404 401 403 403 403 403 403 403
users                  GET    401 403 403 403 200 401 200 403 403 403 403 403
users                  POST   401 403 403 403 400 401 403 403 403 403 403 403
user                   GET    401 403 403 403 200 401 200 403 403 403 403 403
user                   PATCH  401 403 403 403 200 401 403 403 403 403 403 403
user_link              POST   401 403 403 403 201 401 403 403 403 403 403 403
groups                 GET    401 403 403 403 200 401 200 403 403 403 403 403
groups                 POST   401 403 403 403 400 401 403 403 403 403 403 403
group                  GET    401 403 403 403 404 401 404 403 403 403 403 403
group                  DELETE 401 403 403 403 404 401 403 403 403 403 403 403
group_member           PUT    401 403 403 403 404 401 403 403 403 403 403 403
group_member           DELETE 401 403 403 403 404 401 403 403 403 403 403 403
row_grants             GET    401 403 200 200 200 401 200 200 200 200 200 200
row_grants             POST   401 403 403 403 400 401 403 403 403 403 403 403
row_grant              GET    401 403 404 404 404 401 404 404 404 404 404 404
row_grant              DELETE 401 403 403 403 404 401 403 403 403 403 403 403
masked_columns         GET    401 403 200 200 200 401 200 200 200 200 200 404
masked_columns         PUT    401 403 403 403 400 401 403 403 403 403 400 404
uploads                GET    401 403 200 200 200 401 200 200 200 200 200 200
uploads                POST   401 403 403 400 400 401 403 400 403 400 400 400
upload                 DELETE 401 403 403 404 404 401 403 404 403 404 404 404
tokens                 GET    401 403 200 200 200 401 200 200 200 200 200 200
tokens                 POST   401 403 201 201 201 401 201 201 201 201 201 201
token                  DELETE 401 403 404 404 404 401 404 404 404 404 404 404
report_operation       POST   401 401 401 401 401 400 401 401 401 401 401 401
report_log             POST   401 401 401 401 401 400 401 401 401 401 401 401
report_leave           POST   401 401 401 401 401 400 401 401 401 401 401 401
"""
OF_ALL = ("anonymous", "nobody", "viewer", "operator", "admin", "worker")
"""No one signed in, no role, a role everywhere, and a worker's token."""
ROLES = (*OF_ALL, *OF_PLACES)
CASES = [line.split() for line in MATRIX.strip().splitlines()]
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
REPORTS = ("report_operation", "report_log", "report_leave")
"""Which workers alone may call."""


@pytest.fixture
def operation(synced: Table, admin: User) -> Operation:
    parameters = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
    return do_request_write(table=synced, parameters=parameters, by=admin)


@pytest.fixture
def addresses(
    synced: Table, operation: Operation, admin: User, settings: Settings
) -> dict[str, str]:
    put_state(storage_of(synced), stuck_state())
    sync_table(synced)
    settings.SLUICE_MARKER_SECRET = ""  # So that no marker server is started here.
    instant = synced.instants.order_by("requested_at").last()
    assert instant is not None
    file_group = synced.file_groups.first()
    assert file_group is not None
    now = timezone.now()
    alert = Alert.objects.create(
        table=synced, check_name="mirror", verdict="bad", unwell_at=now, fired_at=now
    )
    channel = Channel.objects.create(name="x", kind="mail", group_s=0, severity_min="info")
    kept = Connection.objects.create(name="x", kind="kafka", changed_at=now)
    kept.grants.create(namespace=synced.namespace)
    values = {
        "slug": synced.slug,
        "requested_at": instant.requested_at,
        "operation_id": operation.pk,
        "approval_id": awaiting(synced).pk,
        "query_id": 1,
        "action": "rollback",
        "token_key": "0" * 15,
        "group_id": 1,
        "username": "ada",
        "grant_id": 70_000_001,
        "service": "compaction",
        "file_id": file_group.file_id,
        "sink_id": SINK,
        "event_id": AuditEvent.objects.latest("pk").pk,
        "schedule_id": nightly(synced, admin).pk,
        "alert_id": alert.pk,
        "check": "mirror",
        "threshold": "skew",
        "channel_id": channel.pk,
        "name": kept.name,
        "upload_id": uuid.uuid4(),
    }
    return {name: reverse(f"api:{name}", kwargs=_wanted(name, values)) for name in _routes()}


@pytest.fixture
def asking(
    synced: Table, nobody: User, viewer: User, operator: User, admin: User, settings: Settings
) -> dict[str, Client]:
    """A client of each role."""
    people = {"nobody": nobody, "viewer": viewer, "operator": operator, "admin": admin}
    people |= people_of_places(synced)
    clients = {role: Client() for role in ROLES}
    for role, person in people.items():
        clients[role].force_login(person)
    token = build_report_token(settings.SLUICE_WORKER_TOKEN, str(uuid.uuid4()))
    clients["worker"] = Client(headers={"Authorization": f"Worker {token}"})
    assert set(people) | {"anonymous", "worker"} == set(ROLES)
    return clients


def differing(
    cases: list[list[str]],
    addresses: dict[str, str],
    asking: dict[str, Client],
    roles: Sequence[str] = ROLES,
) -> dict[str, str]:
    """Case and role -> what the role is answered, where that is not what the case says. Each
    request is undone, so that every role finds the same.
    """
    wrong = {}
    for name, method, *expected in cases:
        for role in roles:
            with undone():
                answer = asking[role].generic(method, addresses[name], b"{}", "application/json")
            got = str(answer.status_code)
            if got != expected[ROLES.index(role)]:
                said = f"{got} instead of {expected[ROLES.index(role)]}"
                wrong[f"{name} {method} {role}"] = said
    return wrong


def _wanted(name: str, values: dict[str, object]) -> dict[str, object]:
    pattern = next(one for one in urlpatterns if one.name == name)
    return {key: values[key] for key in pattern.pattern.converters}


def _routes() -> Iterator[str]:
    for pattern in urlpatterns:
        assert isinstance(pattern, URLPattern)
        assert pattern.name is not None
        yield pattern.name


def test_the_matrix_names_every_route() -> None:
    listed, routes = {case[0] for case in CASES}, set(_routes())

    assert routes - listed == set(), "add a line to MATRIX for each method of these routes"
    assert listed - routes == set(), "these routes are gone: take them out of MATRIX"
    assert [case for case in CASES if len(case) != 2 + len(ROLES)] == []


@pytest.mark.slow
def test_each_role_reads_exactly_what_it_may(
    addresses: dict[str, str], asking: dict[str, Client]
) -> None:
    reads = [case for case in CASES if case[1] == "GET"]

    assert differing(reads, addresses, asking, OF_ALL) == {}


@pytest.mark.slow
@pytest.mark.parametrize("role", OF_PLACES)
def test_each_role_in_one_place_reads_exactly_what_it_may(
    role: str, addresses: dict[str, str], asking: dict[str, Client]
) -> None:
    reads = [case for case in CASES if case[1] == "GET"]

    assert differing(reads, addresses, asking, [role]) == {}


def test_each_role_changes_exactly_what_it_may(
    addresses: dict[str, str], asking: dict[str, Client]
) -> None:
    assert differing([case for case in CASES if case[1] != "GET"], addresses, asking) == {}


def test_no_route_answers_a_method_that_the_matrix_does_not_list(
    addresses: dict[str, str], client: Client, admin: User
) -> None:
    client.force_login(admin)
    listed = {(name, method) for name, method, *_ in CASES}

    statuses = {
        (name, method): client.generic(method, address, b"{}", "application/json").status_code
        for name, address in addresses.items()
        for method in METHODS
        if (name, method) not in listed
    }

    assert {status for key, status in statuses.items() if key[0] not in REPORTS} == {405}


def test_a_session_without_a_csrf_token_changes_nothing(
    addresses: dict[str, str], admin: User
) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin)
    cases = [case for case in CASES if case[1] != "GET"]

    statuses = {
        (name, method): client.generic(method, addresses[name], b"{}", "application/json")
        for name, method, *_ in cases
    }

    assert {key: response.status_code for key, response in statuses.items()} == {
        (name, method): 401 if name in REPORTS else 403 for name, method, *_ in cases
    }


def test_an_unknown_table_is_not_found_and_a_foreign_operation_neither(
    client: Client, viewer: User, synced: Table
) -> None:
    client.force_login(viewer)

    assert client.get("/api/v1/tables/other/").status_code == 404
    assert client.get(f"/api/v1/operations/{uuid.uuid4()}/").status_code == 404
