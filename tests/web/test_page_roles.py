"""Every page against every role. The list of pages comes from the URL resolver, so a new one fails
until the table below says who may see it and who may press its buttons.
"""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.audit.models import AuditEvent
from controlplane.connections.models import Connection
from controlplane.mirror.storage import storage_of
from controlplane.mirror.sync import sync_table
from controlplane.monitoring.channels.actions import ChannelWish, do_create_channel
from controlplane.monitoring.models import Alert
from controlplane.operations.actions import do_request_write
from controlplane.tables.models import Table
from tests.controlplane.approvals import awaiting
from tests.support.schedules import nightly
from tests.support.sinks import SINK, stuck_state
from tests.web.conftest import fill
from tests.web.data_page_roles import DATA_PAGES
from tests.web.page_addresses import Expected, pages
from workers.sink.state_file import put_state
from workers.table_services import registry

# Page, method, then the answer for: anonymous, no role, viewer, operator, admin. `login` leads to
# the sign-in page. A form that is empty is refused as 422, 400 or 409, or leads back (302): whoever
# gets that was let in. A page stands once for each kind of thing that it may be asked for.
MATRIX = f"""{DATA_PAGES}
node-settings                          GET   login 403 403 403 200
preferences                            GET   login 200 200 200 200
preferences                            POST  login 302 302 302 302
view-delete                            POST  login 200 200 200 200
home                                   GET   login 403 200 200 200
home?q=trips                           GET   login 302 302 302 302
home-part                              GET   login 403 200 200 200
tables                                 GET   login 403 200 200 200
tables-rows                            GET   login 403 200 200 200
tables?sort=nothing                    GET   login 403 400 400 400
tables-export                          GET   login 403 200 200 200
tables-export?as=xml                   GET   login 403 400 400 400
tables-bulk                            POST  login 403 400 400 400
columns-choose                         POST  login 302 302 302 302
view-save                              POST  login 400 400 400 400
table-pin                              POST  login 403 302 302 302
table-register                         GET   login 403 403 403 200
table-register                         POST  login 403 403 403 422
table-create                           GET   login 403 403 403 200
table-create?path=/etc/passwd          GET   login 403 403 403 400
table-create                           POST  login 403 403 403 422
settings                               GET   login 403 200 200 200
settings                               POST  login 403 403 403 422
masks                                  GET   login 403 200 200 200
masks                                  POST  login 403 403 403 422
unregister                             GET   login 403 200 200 200
unregister                             POST  login 403 403 403 422
operations                             GET   login 403 200 200 200
operations?since=yesterday             GET   login 403 400 400 400
operations?since=0001-01-01T00:00%2B14:00 GET login 403 400 400 400
operations-export                      GET   login 403 200 200 200
operations-rows                        GET   login 403 200 200 200
go                                     GET   login 302 302 302 302
go?q=trips                             GET   login 302 302 302 302
go?q=oslo&table=trips                  GET   login 302 302 302 302
audit                                  GET   login 403 403 403 200
audit-row                              GET   login 403 403 403 200
login                                  GET   200   200 200 200 200
login                                  POST  200   200 200 200 200
oidc-start                             GET   404   404 404 404 404
oidc-callback                          GET   404   404 404 404 404
oidc-leave                             GET   404   404 404 404 404
logout                                 POST  login login login login login
access                                 GET   login 403 403 403 200
access                                 POST  login 403 403 403 422
access-take                            POST  login 403 403 403 404
people                                 GET   login 403 403 403 200
people                                 POST  login 403 403 403 422
person                                 GET   login 403 403 403 200
person-roles                           POST  login 403 403 403 200
person-lock                            POST  login 403 403 403 200
person-unlock                          POST  login 403 403 403 302
person-link                            POST  login 403 403 403 200
group-create                           POST  login 403 403 403 400
group                                  GET   login 403 403 403 404
group-add                              POST  login 403 403 403 404
group-remove                           POST  login 403 403 403 404
group-delete                           POST  login 403 403 403 404
password                               GET   200   200 200 200 200
password                               POST  200   200 200 200 200
tokens                                 GET   login 403 200 200 200
tokens                                 POST  login 403 422 422 422
token-revoke                           POST  login 404 404 404 404
access-rows                            GET   login 403 403 403 200
access-rows                            POST  login 403 403 403 422
access-rows-take                       POST  login 403 403 403 404
events-all                             GET   401   403 503 503 503
events                                 GET   401   403 503 503 503
overview                               GET   login 403 200 200 200
health                                 GET   login 403 200 200 200
freshness:part=freshness               GET   login 403 200 200 200
freshness:part=mirror_notice           GET   login 403 200 200 200
live                                   GET   login 403 200 200 200
live-part:part=writers                 GET   login 403 200 200 200
demo-start                             POST  login 403 403 404 404
demo:button=kill                       POST  login 403 403 403 404
demo-story                             GET   login 404 404 404 404
demo-strip:what=hide                   POST  login 302 302 302 302
demo-step:name=early                   POST  login 403 404 404 404
demo-reset                             GET   login 403 404 404 404
demo-reset                             POST  login 403 404 404 404
timeline                               GET   login 403 200 200 200
timeline-figure                        GET   login 403 200 200 200
timeline-rows                          GET   login 403 200 200 200
timeline-instant                       GET   login 403 200 200 200
files                                  GET   login 403 200 200 200
files-rows                             GET   login 403 200 200 200
file-group                             GET   login 403 404 404 404
table-write                            GET   login 403 200 200 200
table-write?kind=sql                   GET   login 403 200 200 200
table-write                            POST  login 403 403 422 422
writers                                GET   login 403 200 200 200
writers-part                           GET   login 403 200 200 200
writer-abort                           GET   login 403 403 200 200
writer-abort-now                       POST  login 403 403 302 302
locks                                  GET   login 403 200 200 200
locks-part:part=history                GET   login 403 200 200 200
markers                                GET   login 403 200 200 200
markers-part:part=server               GET   login 403 200 200 200
marker-tree                            GET   login 403 200 200 200
conflicts                              GET   login 403 200 200 200
conflicts-rows                         GET   login 403 200 200 200
conflicts-rivals                       GET   login 403 200 200 200
conflict                               GET   login 403 200 200 200
conflict-part                          GET   login 403 200 200 200
schema                                 GET   login 403 200 200 200
streams                                GET   login 403 200 200 200
streams-part:part=board                GET   login 403 200 200 200
streams-why                            GET   login 403 200 200 200
stream-declare                         GET   login 403 200 200 200
stream-declare                         POST  login 403 403 403 422
stream-launch                          POST  login 403 403 302 302
sinks                                  GET   login 403 200 200 200
sinks-list                             GET   login 403 200 200 200
sink-start                             GET   login 403 200 200 200
sink-start                             POST  login 403 403 422 422
sinks-part:part=state                  GET   login 403 200 200 200
sink-replay                            GET   login 403 403 403 409
sink-replay                            POST  login 403 403 403 409
sink-reset                             GET   login 403 403 403 200
sink-reset                             POST  login 403 403 403 400
sink-stop                              GET   login 403 403 200 200
sink-stop                              POST  login 403 403 302 302
sink-relaunch                          GET   login 403 403 200 200
sink-relaunch                          POST  login 403 403 302 302
services                               GET   login 403 200 200 200
services-part:part=cards               GET   login 403 200 200 200
service:service=adopt                  GET   login 403 200 200 200
service:service=adopt                  POST  login 403 403 403 422
service:service=archive                GET   login 403 200 200 200
service:service=archive                POST  login 403 403 422 422
service:service=clean                  GET   login 403 200 200 200
service:service=clean                  POST  login 403 403 422 422
service:service=clustering             GET   login 403 200 200 200
service:service=clustering             POST  login 403 403 422 422
service:service=compaction             GET   login 403 200 200 200
service:service=compaction             POST  login 403 403 422 422
service:service=delete                 GET   login 403 200 200 200
service:service=delete?path=/data/a.csv GET  login 403 403 400 400
service:service=delete                 POST  login 403 403 403 422
service:service=delete_partition       GET   login 403 200 200 200
service:service=delete_partition       POST  login 403 403 403 422
service:service=delete_savepoint       GET   login 403 200 200 200
service:service=delete_savepoint       POST  login 403 403 403 422
service:service=insert_overwrite       GET   login 403 200 200 200
service:service=insert_overwrite       POST  login 403 403 403 422
service:service=insert_overwrite_table GET   login 403 200 200 200
service:service=insert_overwrite_table POST  login 403 403 403 422
service:service=repair                 GET   login 403 200 200 200
service:service=repair                 POST  login 403 403 403 422
service:service=restore                GET   login 403 200 200 200
service:service=restore                POST  login 403 403 403 422
service:service=rollback_several       GET   login 403 200 200 200
service:service=rollback_several       POST  login 403 403 403 422
service:service=savepoint              GET   login 403 200 200 200
service:service=savepoint              POST  login 403 403 422 422
service:service=upgrade                GET   login 403 200 200 200
service:service=upgrade                POST  login 403 403 403 422
service-setting:service=clean          GET   login 403 200 200 200
service-setting:service=clean          POST  login 403 403 403 422
schedules                              GET   login 403 200 200 200
schedules-rows                         GET   login 403 200 200 200
schedule-new                           GET   login 403 200 200 200
schedule-new                           POST  login 403 403 422 422
schedule                               GET   login 403 200 200 200
schedule                               POST  login 403 403 422 422
schedule-pause                         POST  login 403 403 302 302
schedule-delete                        POST  login 403 403 200 200
savepoints                             GET   login 403 200 200 200
savepoints-rows                        GET   login 403 200 200 200
rollback                               GET   login 403 200 200 200
rollback-choices                       GET   login 403 200 200 200
rollback-plan                          GET   login 403 200 200 200
rollback-plan                          POST  login 403 403 403 422
operation                              GET   login 403 200 200 200
operation-state                        GET   login 403 200 200 200
operation-log                          GET   login 403 200 200 200
operation-log?level=loud               GET   login 403 400 400 400
operation-log-download                 GET   login 403 200 200 200
operation-again                        POST  login 403 403 400 400
operation-cancel                       POST  login 403 403 302 302
alerts                                 GET   login 403 200 200 200
alerts-rows                            GET   login 403 200 200 200
alert-rules                            GET   login 403 200 200 200
alert-rule:check=mirror                POST  login 403 403 403 302
approvals                              GET   login 403 200 200 200
approval                               GET   login 403 200 200 200
approval                               POST  login 403 403 403 422
approval-rules                         GET   login 403 200 200 200
approval-rules                         POST  login 403 403 403 302
table-approval-rules                   GET   login 403 200 200 200
table-approval-rules                   POST  login 403 403 403 302
thresholds                             GET   login 403 200 200 200
thresholds                             POST  login 403 403 403 302
table-thresholds                       GET   login 403 200 200 200
table-thresholds                       POST  login 403 403 403 302
connections                            GET   login 403 403 200 200
connection-new                         GET   login 403 403 403 200
connection-new?kind=mysql              GET   login 403 403 403 404
connection-new                         POST  login 403 403 403 422
connection-change                      GET   login 403 403 403 200
connection-change                      POST  login 403 403 403 400
connection-grants                      POST  login 403 403 403 302
connection-test                        POST  login 403 403 403 302
connection-delete                      POST  login 403 403 403 302
channels                               GET   login 403 403 403 200
channel-messages                       GET   login 403 403 403 200
channel-new                            GET   login 403 403 403 200
channel-new                            POST  login 403 403 403 422
channel-change                         GET   login 403 403 403 200
channel-change                         POST  login 403 403 403 422
channel-test                           POST  login 403 403 403 302
channel-delete                         POST  login 403 403 403 200
alert-silence                          GET   login 403 403 200 200
alert-silence                          POST  login 403 403 422 422
alert-unsilence                        POST  login 403 403 302 302
healthz                                GET   200   200 200 200 200
readyz                                 GET   503   503 503 503 503
metrics                                GET   401   401 401 401 401
"""
ROLES = ("anonymous", "nobody", "viewer", "operator", "admin")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
OF_DJANGO = {("login", "PUT"), ("login", "OPTIONS"), ("logout", "OPTIONS")}
"""What its own pages answer besides."""


def listed_methods(lines: list[Expected]) -> set[tuple[str, str]]:
    """(page, method), HEAD with every GET but that of the live streams, which have no end."""
    named = {(line.name, line.method) for line in lines} | OF_DJANGO
    heads = {(name, "HEAD") for name, method in named if method == "GET"}
    return named | {(name, head) for name, head in heads if not name.startswith("events")}


def table_of(role: str) -> list[Expected]:
    lines = [line.split() for line in MATRIX.strip().splitlines()]
    column = ROLES.index(role)
    return [Expected(page, method, answers[column]) for page, method, *answers in lines]


@pytest.fixture
def places(trips: Table, admin: User) -> dict[str, str]:
    """What addresses are made of: a table in storage with a sink and an operation, and one whose
    mirror knows a conflict.
    """
    put_state(storage_of(trips), stuck_state())
    sync_table(trips)
    now = timezone.now()
    busy = fill("ads", admin, now=now)
    newest = trips.instants.order_by("requested_at").last()
    assert newest is not None
    source = {"kind": "csv", "path": "/data/weather.csv"}
    queued = do_request_write(table=trips, parameters={"source": source}, by=admin)
    alert = Alert.objects.create(
        table=trips, check_name="mirror", verdict="bad", unwell_at=now, fired_at=now
    )
    Connection.objects.create(name="x", kind="kafka", changed_at=now)
    wish = ChannelWish(name="x", kind="webhook", address="https://receiver.example/x")
    return {
        "approval_id": str(awaiting(trips).pk),
        "name": "x",
        "channel_id": str(do_create_channel(wish, by=admin).channel.id),
        "alert_id": str(alert.pk),
        "slug": trips.slug,
        "instant": newest.requested_at,
        "requested_at": newest.requested_at,
        "operation_id": str(queued.pk),
        "sink_id": SINK,
        "token_key": "0" * 15,
        "user_key": str(admin.pk),
        "group_key": "1",
        "uidb64": "MQ",
        "token": "set-password",
        "grant_id": "70000001",
        "lost": busy.conflicts.get(kind="write").loser_instant,
        "event_id": str(AuditEvent.objects.latest("pk").pk),
        "schedule_id": str(nightly(trips, admin).pk),
        "query_id": "1",
    }


def answer(client: Client, method: str, address: str) -> str:
    response = client.generic(method, address, b"", "application/x-www-form-urlencoded")
    is_to_login = response.status_code == 302 and response["Location"].startswith("/login/")
    return "login" if is_to_login else str(response.status_code)


def test_the_matrix_names_every_page_and_every_service() -> None:
    listed = table_of("admin")
    services = {line.page.split("=")[1] for line in listed if line.page.startswith("service:")}

    assert {line.name for line in listed} == set(pages())
    assert {name.partition("?")[0] for name in services} == set(registry.service_names())


@pytest.mark.parametrize(
    "role", [ROLES[0], *(pytest.param(role, marks=pytest.mark.slow) for role in ROLES[1:])]
)
def test_each_role_gets_exactly_what_it_may(
    role: str, places: dict[str, str], client_of: dict[str, Client]
) -> None:
    lines, wanted = table_of(role), pages()
    heads = listed_methods(lines)

    differing = {}
    for line in lines:
        # Whoever leaves is a client of its own, so that the others stay signed in.
        client = Client() if line.name == "logout" else client_of[role]
        address = line.address(places, wanted)
        methods = [line.method]
        if line.method == "GET" and (line.name, "HEAD") in heads:
            methods.append("HEAD")
        for method in methods:
            if (got := answer(client, method, address)) != line.answer:
                differing[f"{method} {line.page}"] = f"{got} instead of {line.answer}"

    assert differing == {}


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("role", ROLES)
def test_no_page_answers_a_method_that_the_matrix_does_not_list(
    role: str, places: dict[str, str], client_of: dict[str, Client]
) -> None:
    lines, wanted = table_of(role), pages()
    listed = listed_methods(lines)

    answered = {
        f"{method} {line.page}": got
        for line in lines
        for method in METHODS
        if (line.name, method) not in listed
        and (got := answer(client_of[role], method, line.address(places, wanted))) != "405"
    }

    assert answered == {}


def test_a_button_without_a_csrf_token_changes_nothing(places: dict[str, str], admin: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin)
    buttons = [line for line in table_of("admin") if line.method == "POST"]

    answers = {line.page: answer(client, "POST", line.address(places, pages())) for line in buttons}

    assert set(answers.values()) == {"403"}
