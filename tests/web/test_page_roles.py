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
from controlplane.monitoring.channels.actions import ChannelSpec, do_create_channel
from controlplane.monitoring.models import Alert
from controlplane.operations.actions import do_request_write
from controlplane.tables.models import Table
from tests.controlplane.approvals import awaiting
from tests.support.role_places import OF_PLACES, people_of_places, undone
from tests.support.schedules import nightly
from tests.support.sinks import SINK, stuck_state
from tests.web.conftest import fill
from tests.web.data_page_roles import DATA_PAGES
from tests.web.page_addresses import Expected, pages
from workers.sink.state_file import put_state
from workers.table_services import registry

# Page, method, then the answer for: anonymous, no role, viewer, operator, admin; and for auditor,
# operator by a group alone, viewer, operator and admin of this table alone, admin of another table.
# `in` leads to the sign-in page. A form that is empty is refused as 422, 400 or 409, or leads
# back (302): a role that gets that was let in. A page stands once for each kind of thing that it
# may be asked for. Each request finds what the others found.
MATRIX = f"""{DATA_PAGES}
node-settings                          GET  in  403 403 403 200 403 403 403 403 403 403
manual                                 GET  in  200 200 200 200 200 200 200 200 200 200
preferences                            GET  in  200 200 200 200 200 200 200 200 200 200
preferences                            POST in  302 302 302 302 302 302 302 302 302 302
view-delete                            POST in 200 200 200 200 200 200 200 200 200 200
home                                   GET  in  403 200 200 200 200 200 200 200 200 200
home?q=trips                           GET  in  302 302 302 302 302 302 302 302 302 302
home-part                              GET  in  403 200 200 200 200 200 200 200 200 200
home-hours                             GET  in  403 200 200 200 200 200 200 200 200 200
tables                                 GET  in  403 200 200 200 200 200 200 200 200 200
tables-rows                            GET  in  403 200 200 200 200 200 200 200 200 200
tables?sort=nothing                    GET  in  403 400 400 400 400 400 400 400 400 400
tables-export                          GET  in  403 200 200 200 200 200 200 200 200 200
tables-export?as=xml                   GET  in  403 400 400 400 400 400 400 400 400 400
tables-bulk                            POST in  403 400 400 400 400 400 400 400 400 400
tables-tag                             POST in  403 403 403 400 403 403 403 403 400 400
columns-choose                         POST in  302 302 302 302 302 302 302 302 302 302
view-save                              POST in  400 400 400 400 400 400 400 400 400 400
table-pin                              POST in  403 302 302 302 302 302 302 302 302 404
table-register                         GET  in  403 403 403 200 403 403 403 403 403 403
table-register                         POST in  403 403 403 422 403 403 403 403 403 403
table-create                           GET  in  403 403 403 200 403 403 403 403 403 403
table-create?path=/etc/passwd          GET  in  403 403 403 400 403 403 403 403 403 403
table-create                           POST in  403 403 403 422 403 403 403 403 403 403
table-create-upload                    POST in  403 403 403 400 403 403 403 403 403 403
settings                               GET  in  403 200 200 200 200 200 200 200 200 404
settings                               POST in  403 403 403 422 403 403 403 403 422 404
masks                                  GET  in  403 200 200 200 200 200 200 200 200 404
masks                                  POST in  403 403 403 422 403 403 403 403 422 404
unregister                             GET  in  403 200 200 200 200 200 200 200 200 404
unregister                             POST in  403 403 403 422 403 403 403 403 422 404
operations                             GET  in  403 200 200 200 200 200 200 200 200 200
operations?since=yesterday             GET  in  403 400 400 400 400 400 400 400 400 400
operations?since=0001-01-01T00:00%2B14:00 GET  in  403 400 400 400 400 400 400 400 400 400
operations-export                      GET  in  403 200 200 200 200 200 200 200 200 200
operation-by-id                        GET  in  403 302 302 302 302 302 302 302 302 404
table-operations                       GET  in  403 302 302 302 302 302 302 302 302 404
operations-rows                        GET  in  403 200 200 200 200 200 200 200 200 200
go                                     GET  in  302 302 302 302 302 302 302 302 302 302
go?q=trips                             GET  in  302 302 302 302 302 302 302 302 302 302
go?q=oslo&table=trips                  GET  in  302 302 302 302 302 302 302 302 302 404
audit                                  GET  in  403 403 403 200 200 403 403 403 403 403
audit-row                              GET  in  403 403 403 200 200 403 403 403 403 403
login                                  GET  200 200 200 200 200 200 200 200 200 200 200
login                                  POST 200 200 200 200 200 200 200 200 200 200 200
oidc-start                             GET  404 404 404 404 404 404 404 404 404 404 404
oidc-callback                          GET  404 404 404 404 404 404 404 404 404 404 404
oidc-leave                             GET  404 404 404 404 404 404 404 404 404 404 404
logout                                 POST in  in in in in in in in in in in
access                                 GET  in  403 403 403 200 200 403 403 403 403 403
access                                 POST in  403 403 403 422 403 403 403 403 403 403
access-take                            POST in  403 403 403 404 403 403 403 403 403 403
people                                 GET  in  403 403 403 200 200 403 403 403 403 403
people                                 POST in  403 403 403 422 403 403 403 403 403 403
person                                 GET  in  403 403 403 200 200 403 403 403 403 403
person-roles                           POST in 403 403 403 200 403 403 403 403 403 403
person-lock                            POST in 403 403 403 200 403 403 403 403 403 403
person-unlock                          POST in  403 403 403 302 403 403 403 403 403 403
person-link                            POST in  403 403 403 200 403 403 403 403 403 403
group-create                           POST in  403 403 403 400 403 403 403 403 403 403
group                                  GET  in  403 403 403 404 404 403 403 403 403 403
group-add                              POST in  403 403 403 404 403 403 403 403 403 403
group-remove                           POST in  403 403 403 404 403 403 403 403 403 403
group-delete                           POST in  403 403 403 404 403 403 403 403 403 403
password                               GET  200 200 200 200 200 200 200 200 200 200 200
password                               POST 200 200 200 200 200 200 200 200 200 200 200
tokens                                 GET  in  403 200 200 200 200 200 200 200 200 200
tokens                                 POST in  403 422 422 422 422 422 422 422 422 422
token-revoke                           POST in  404 404 404 404 404 404 404 404 404 404
access-rows                            GET  in  403 403 403 200 403 403 403 403 403 403
access-rows                            POST in  403 403 403 422 403 403 403 403 403 403
access-rows-take                       POST in  403 403 403 404 403 403 403 403 403 403
events-all                             GET  401 403 503 503 503 503 503 503 503 503 503
events                                 GET  401 403 503 503 503 503 503 503 503 503 404
overview                               GET  in  403 200 200 200 200 200 200 200 200 404
health                                 GET  in  403 200 200 200 200 200 200 200 200 404
freshness:part=freshness               GET  in  403 200 200 200 200 200 200 200 200 404
freshness:part=mirror_notice           GET  in  403 200 200 200 200 200 200 200 200 404
live                                   GET  in  403 200 200 200 200 200 200 200 200 404
live-part:part=writers                 GET  in  403 200 200 200 200 200 200 200 200 404
live-parts                             GET  in  403 200 200 200 200 200 200 200 200 404
demo-start                             POST in  403 403 404 404 403 404 403 404 404 404
demo:button=kill                       POST in  403 403 403 404 403 403 403 403 404 404
demo-story                             GET  in  404 404 404 404 404 404 404 404 404 404
demo-strip:what=hidden                 POST in  302 302 302 302 302 302 302 302 302 302
demo-step:name=meet                    POST in  403 404 404 404 404 404 404 404 404 404
demo-reset                             GET  in  403 404 404 404 404 404 404 404 404 404
demo-reset                             POST in  403 404 404 404 404 404 404 404 404 404
timeline                               GET  in  403 200 200 200 200 200 200 200 200 404
timeline-figure                        GET  in  403 200 200 200 200 200 200 200 200 404
timeline-rows                          GET  in  403 200 200 200 200 200 200 200 200 404
timeline-instant                       GET  in  403 200 200 200 200 200 200 200 200 404
files                                  GET  in  403 200 200 200 200 200 200 200 200 404
files-rows                             GET  in  403 200 200 200 200 200 200 200 200 404
file-group                             GET  in  403 404 404 404 404 404 404 404 404 404
table-write                            GET  in  403 200 200 200 200 200 200 200 200 404
table-write?kind=sql                   GET  in  403 200 200 200 200 200 200 200 200 404
table-upload                           POST in  403 403 400 400 403 400 403 400 400 404
table-write                            POST in  403 403 422 422 403 422 403 422 422 404
writers                                GET  in  403 200 200 200 200 200 200 200 200 404
writers-part                           GET  in  403 200 200 200 200 200 200 200 200 404
writer-abort                           GET  in  403 403 200 200 403 200 403 200 200 404
writer-abort-now                       POST in  403 403 302 302 403 302 403 302 302 404
locks                                  GET  in  403 200 200 200 200 200 200 200 200 404
locks-part:part=history                GET  in  403 200 200 200 200 200 200 200 200 404
markers                                GET  in  403 200 200 200 200 200 200 200 200 404
markers-part:part=server               GET  in  403 200 200 200 200 200 200 200 200 404
marker-tree                            GET  in  403 200 200 200 200 200 200 200 200 404
conflicts                              GET  in  403 200 200 200 200 200 200 200 200 404
conflicts-rows                         GET  in  403 200 200 200 200 200 200 200 200 404
conflicts-rivals                       GET  in  403 200 200 200 200 200 200 200 200 404
conflict                               GET  in  403 200 200 200 200 200 200 200 200 404
conflict-part                          GET  in  403 200 200 200 200 200 200 200 200 404
schema                                 GET  in  403 200 200 200 200 200 200 200 200 404
streams                                GET  in  403 200 200 200 200 200 200 200 200 404
streams-part:part=board                GET  in  403 200 200 200 200 200 200 200 200 404
streams-why                            GET  in  403 200 200 200 200 200 200 200 200 404
stream-declare                         GET  in  403 200 200 200 200 200 200 200 200 404
stream-declare                         POST in  403 403 403 422 403 403 403 403 422 404
stream-launch                          POST in  403 403 302 302 403 302 403 302 302 404
sinks                                  GET  in  403 200 200 200 200 200 200 200 200 404
sinks-list                             GET  in  403 200 200 200 200 200 200 200 200 404
sink-start                             GET  in  403 200 200 200 200 200 200 200 200 404
sink-start                             POST in  403 403 422 422 403 422 403 422 422 404
sinks-part:part=state                  GET  in  403 200 200 200 200 200 200 200 200 404
sink-replay                            GET  in  403 403 403 409 403 403 403 403 409 404
sink-replay                            POST in  403 403 403 409 403 403 403 403 409 404
sink-reset                             GET  in  403 403 403 200 403 403 403 403 200 404
sink-reset                             POST in  403 403 403 400 403 403 403 403 400 404
sink-stop                              GET  in  403 403 200 200 403 200 403 200 200 404
sink-stop                              POST in  403 403 302 302 403 302 403 302 302 404
sink-relaunch                          GET  in  403 403 200 200 403 200 403 200 200 404
sink-relaunch                          POST in  403 403 302 302 403 302 403 302 302 404
services                               GET  in  403 200 200 200 200 200 200 200 200 404
services-part:part=cards               GET  in  403 200 200 200 200 200 200 200 200 404
service:service=adopt                  GET  in  403 200 200 200 200 200 200 200 200 404
service:service=adopt                  POST in  403 403 403 422 403 403 403 403 422 404
service:service=archive                GET  in  403 200 200 200 200 200 200 200 200 404
service:service=archive                POST in  403 403 422 422 403 422 403 422 422 404
service:service=clean                  GET  in  403 200 200 200 200 200 200 200 200 404
service:service=clean                  POST in  403 403 422 422 403 422 403 422 422 404
service:service=clustering             GET  in  403 200 200 200 200 200 200 200 200 404
service:service=clustering             POST in  403 403 422 422 403 422 403 422 422 404
service:service=compaction             GET  in  403 200 200 200 200 200 200 200 200 404
service:service=compaction             POST in  403 403 422 422 403 422 403 422 422 404
service:service=delete                 GET  in  403 200 200 200 200 200 200 200 200 404
service:service=delete?path=/data/a.csv GET  in  403 403 400 400 403 400 403 400 400 404
service:service=delete                 POST in  403 403 403 422 403 403 403 403 422 404
service:service=delete_markers         GET  in  403 200 200 200 200 200 200 200 200 404
service:service=delete_markers         POST in  403 403 422 422 403 422 403 422 422 404
service:service=delete_partition       GET  in  403 200 200 200 200 200 200 200 200 404
service:service=delete_partition       POST in  403 403 403 422 403 403 403 403 422 404
service:service=delete_savepoint       GET  in  403 200 200 200 200 200 200 200 200 404
service:service=delete_savepoint       POST in  403 403 403 422 403 403 403 403 422 404
service:service=insert_overwrite       GET  in  403 200 200 200 200 200 200 200 200 404
service:service=insert_overwrite       POST in  403 403 403 422 403 403 403 403 422 404
service:service=insert_overwrite_table GET  in  403 200 200 200 200 200 200 200 200 404
service:service=insert_overwrite_table POST in  403 403 403 422 403 403 403 403 422 404
service:service=repair                 GET  in  403 200 200 200 200 200 200 200 200 404
service:service=repair                 POST in  403 403 403 422 403 403 403 403 422 404
service:service=restore                GET  in  403 200 200 200 200 200 200 200 200 404
service:service=restore                POST in  403 403 403 422 403 403 403 403 422 404
service:service=rollback_several       GET  in  403 200 200 200 200 200 200 200 200 404
service:service=rollback_several       POST in  403 403 403 422 403 403 403 403 422 404
service:service=savepoint              GET  in  403 200 200 200 200 200 200 200 200 404
service:service=savepoint              POST in  403 403 422 422 403 422 403 422 422 404
service:service=upgrade                GET  in  403 200 200 200 200 200 200 200 200 404
service:service=upgrade                POST in  403 403 403 422 403 403 403 403 422 404
service-setting:service=clean          GET  in  403 200 200 200 200 200 200 200 200 404
service-setting:service=clean          POST in  403 403 403 422 403 403 403 403 422 404
schedules                              GET  in  403 200 200 200 200 200 200 200 200 404
schedules-rows                         GET  in  403 200 200 200 200 200 200 200 200 404
schedule-new                           GET  in  403 200 200 200 200 200 200 200 200 404
schedule-new                           POST in  403 403 422 422 403 422 403 422 422 404
schedule                               GET  in  403 200 200 200 200 200 200 200 200 404
schedule                               POST in  403 403 422 422 403 422 403 422 422 404
schedule-pause                         POST in  403 403 302 302 403 302 403 302 302 404
schedule-delete                        POST   in 403 403 200 200 403 200 403 200 200 404
savepoints                             GET  in  403 200 200 200 200 200 200 200 200 404
savepoints-rows                        GET  in  403 200 200 200 200 200 200 200 200 404
rollback                               GET  in  403 200 200 200 200 200 200 200 200 404
rollback-choices                       GET  in  403 200 200 200 200 200 200 200 200 404
rollback-plan                          GET  in  403 200 200 200 200 200 200 200 200 404
writers-pause:change=pause               POST in 403 403 403 302 403 403 403 403 302 404
writers-pause:change=resume              POST in 403 403 403 302 403 403 403 403 302 404
rollback-plan                          POST in  403 403 403 422 403 403 403 403 422 404
operation                              GET  in  403 200 200 200 200 200 200 200 200 404
operation-state                        GET  in  403 200 200 200 200 200 200 200 200 404
operation-log                          GET  in  403 200 200 200 200 200 200 200 200 404
operation-log?level=loud               GET  in  403 400 400 400 400 400 400 400 400 404
operation-log-download                 GET  in  403 200 200 200 200 200 200 200 200 404
operation-again                        POST in  403 403 400 400 403 400 403 400 400 404
operation-cancel                       POST in  403 403 302 302 403 302 403 302 302 404
alerts                                 GET  in  403 200 200 200 200 200 200 200 200 200
alerts-rows                            GET  in  403 200 200 200 200 200 200 200 200 200
alert-rules                            GET  in  403 200 200 200 200 200 200 200 200 200
alert-rule:check=mirror                POST in  403 403 403 302 403 403 403 403 403 403
approvals                              GET  in  403 200 200 200 200 200 200 200 200 200
approval                               GET  in  403 200 200 200 200 200 200 200 200 404
approval                               POST in  403 403 403 422 403 403 403 403 422 404
approval-rules                         GET  in  403 200 200 200 200 200 200 200 200 200
approval-rules                         POST in  403 403 403 302 403 403 403 403 403 403
table-approval-rules                   GET  in  403 200 200 200 200 200 200 200 200 404
table-approval-rules                   POST in  403 403 403 302 403 403 403 403 302 404
thresholds                             GET  in  403 200 200 200 200 200 200 200 200 200
thresholds                             POST in  403 403 403 302 403 403 403 403 403 403
table-thresholds                       GET  in  403 200 200 200 200 200 200 200 200 404
table-thresholds                       POST in  403 403 403 302 403 403 403 403 302 404
connections                            GET  in 403 403 200 200 403 200 403 200 200 200
connection-new                         GET  in 403 403 403 200 403 403 403 403 403 403
connection-new?kind=mysql              GET  in 403 403 403 404 403 403 403 403 403 403
connection-new                         POST in 403 403 403 422 403 403 403 403 403 403
connection-change                      GET  in 403 403 403 200 403 403 403 403 403 403
connection-change                      POST in 403 403 403 400 403 403 403 403 403 403
connection-grants                      POST in 403 403 403 302 403 403 403 403 403 403
connection-test                        POST in 403 403 403 302 403 403 403 403 403 403
connection-delete                      POST in 403 403 403 302 403 403 403 403 403 403
channels                               GET  in  403 403 403 200 403 403 403 403 403 403
channel-messages                       GET  in  403 403 403 200 403 403 403 403 403 403
channel-new                            GET  in  403 403 403 200 403 403 403 403 403 403
channel-new                            POST in  403 403 403 422 403 403 403 403 403 403
channel-change                         GET  in  403 403 403 200 403 403 403 403 403 403
channel-change                         POST in  403 403 403 422 403 403 403 403 403 403
channel-test                           POST in  403 403 403 302 403 403 403 403 403 403
channel-delete                         POST in 403 403 403 200 403 403 403 403 403 403
alert-silence                          GET  in  403 403 200 200 403 200 403 200 200 404
alert-silence                          POST in  403 403 422 422 403 422 403 422 422 404
alert-unsilence                        POST in  403 403 302 302 403 302 403 302 302 404
healthz                                GET  200 200 200 200 200 200 200 200 200 200 200
readyz                                 GET  503 503 503 503 503 503 503 503 503 503 503
metrics                                GET  401 401 401 401 401 401 401 401 401 401 401
"""
OF_ALL = ("anonymous", "nobody", "viewer", "operator", "admin")
"""No one signed in, no role, a role everywhere."""
ROLES = (*OF_ALL, *OF_PLACES)
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
    wish = ChannelSpec(name="x", kind="webhook", address="https://receiver.example/x")
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
        "manual_page": "streams",
        "lost": busy.conflicts.get(kind="write").loser_instant,
        "event_id": str(AuditEvent.objects.latest("pk").pk),
        "schedule_id": str(nightly(trips, admin).pk),
        "query_id": "1",
    }


@pytest.fixture
def asking(client_of: dict[str, Client], trips: Table, places: dict[str, str]) -> dict[str, Client]:
    """A client of each role; `ads` is the table of the pages of conflicts."""
    people = people_of_places(trips, Table.objects.get(slug="ads"))
    clients = client_of | {role: Client() for role in people}
    for role, person in people.items():
        clients[role].force_login(person)
    assert set(clients) == set(ROLES)
    return clients


def answer(client: Client, method: str, address: str) -> str:
    with undone():
        response = client.generic(method, address, b"", "application/x-www-form-urlencoded")
    is_to_login = response.status_code == 302 and response["Location"].startswith("/login/")
    return "in" if is_to_login else str(response.status_code)


def test_the_matrix_names_every_page_and_every_service() -> None:
    listed = table_of("admin")
    services = {line.page.split("=")[1] for line in listed if line.page.startswith("service:")}

    names = {line.name for line in listed}
    assert set(pages()) - names == set(), "add a line to MATRIX for each method of these pages"
    assert names - set(pages()) == set(), "these pages are gone: take them out of MATRIX"
    assert {len(line.split()) for line in MATRIX.strip().splitlines()} == {2 + len(ROLES)}
    assert {name.partition("?")[0] for name in services} == set(registry.list_service_names())


@pytest.mark.parametrize(
    "role", [ROLES[0], *(pytest.param(role, marks=pytest.mark.slow) for role in ROLES[1:])]
)
def test_each_role_gets_exactly_what_it_may(
    role: str, places: dict[str, str], asking: dict[str, Client]
) -> None:
    lines, wanted = table_of(role), pages()
    heads = listed_methods(lines)

    differing = {}
    for line in lines:
        # The one that signs out is a client of its own, so that the others stay signed in.
        client = Client() if line.name == "logout" else asking[role]
        address = line.address(places, wanted)
        methods = [line.method]
        if line.method == "GET" and (line.name, "HEAD") in heads:
            methods.append("HEAD")
        for method in methods:
            if (got := answer(client, method, address)) != line.answer:
                differing[f"{method} {line.page}"] = f"{got} instead of {line.answer}"

    assert differing == {}


@pytest.mark.sampled(every=11)
@pytest.mark.parametrize("role", ROLES)
def test_no_page_answers_a_method_that_the_matrix_does_not_list(
    role: str, places: dict[str, str], asking: dict[str, Client]
) -> None:
    lines, wanted = table_of(role), pages()
    listed = listed_methods(lines)

    answered = {
        f"{method} {line.page}": got
        for line in lines
        for method in METHODS
        if (line.name, method) not in listed
        and (got := answer(asking[role], method, line.address(places, wanted))) != "405"
    }

    assert answered == {}


def test_a_button_without_a_csrf_token_changes_nothing(places: dict[str, str], admin: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin)
    buttons = [line for line in table_of("admin") if line.method == "POST"]

    answers = {line.page: answer(client, "POST", line.address(places, pages())) for line in buttons}

    assert set(answers.values()) == {"403"}
