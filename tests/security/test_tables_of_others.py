"""Threat T12: nobody learns of a table that he may not see. Every address that there is comes from
the URL resolver, pages and API alike, so a new one fails here until it keeps to that.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from controlplane.accounts.models import Grant
from controlplane.accounts.tokens import create_token
from controlplane.home.tables import Sums
from controlplane.mirror.storage import storage_of
from controlplane.mirror.sync import sync_table
from controlplane.monitoring.models import Alert
from controlplane.operations.actions import do_request_write
from controlplane.tables.models import Table
from controlplane.uploads.models import Upload
from tests.controlplane.approvals import awaiting
from tests.support.schedules import followed
from tests.support.sinks import SINK, stuck_state
from tests.web.conftest import fill
from workers.sink.state_file import put_state

METHODS = ("GET", "POST", "PUT", "DELETE", "OPTIONS")
SECRET = "hushhush"
OF_A_TABLE = {"alert_id", "approval_id", "slug", "operation_id"}
"""What an address takes that names a table, or something that only one table has."""
ALERT = 70_000_001
"""No other number on a page is like it."""
UPLOAD = "70000001-0000-4000-8000-000000000000"
"""An upload of the admin, whose name betrays it."""
PARTS = {
    "freshness": "mirror_notice",
    "live-part": "writers",
    "locks-part": "history",
    "markers-part": "server",
    "services-part": "cards",
    "sinks-part": "state",
    "streams-part": "board",
}
OF_NO_TABLE = {
    "action": "restore",
    "button": "kill",
    "change": "pause",
    "channel_id": "1",
    "check": "mirror",
    "event_id": "1",
    "grant_id": "1",
    "query_id": "1",
    "group_id": "1",
    "group_key": "1",
    "manual_page": "streams",
    "name": "rollback",
    "threshold": "skew",
    "token": "set-password",
    "token_key": "0" * 15,
    "uidb64": "MQ",
    "user_key": "1",
    "upload_id": UPLOAD,
    "username": "gus",
    "what": "hide",
}
"""What an address takes besides, in any test that looks through all addresses."""
LEADS_NOWHERE = {
    # The table that is tried has no conflict, no such letter and no demo, and no query is sent.
    "conflict", "conflict-part", "file-group", "demo", "demo-start",
    "api:conflict", "api:marker_tree", "api:sink_letter",
}  # fmt: skip
_CHANGING = re.compile(r'value="\w{64}"|data-now="\d+"|\d\d:\d\d:\d\d')


@dataclass(frozen=True, slots=True)
class Address:
    """One that the site answers."""

    name: str
    takes: frozenset[str]

    @property
    def is_of_table(self) -> bool:
        return bool(self.takes & OF_A_TABLE)

    def made_of(self, known: Mapping[str, str]) -> str:
        """KeyError for something new that an address takes: say below what that may be."""
        values = {**known, "part": PARTS.get(self.name, "")}
        return reverse(self.name, kwargs={name: values[name] for name in self.takes})


def addresses() -> list[Address]:
    return list(_addresses(get_resolver(), ""))


def _addresses(resolver: URLResolver, namespace: str) -> Iterator[Address]:
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLPattern):
            takes = frozenset(pattern.pattern.regex.groupindex)
            yield Address(f"{namespace}{pattern.name}", takes)
        else:
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from _addresses(pattern, inner)


@pytest.fixture
def hidden(trips: Table, admin: User) -> list[Table]:
    """One in storage with a sink and an operation, and one whose mirror knows everything."""
    put_state(storage_of(trips), stuck_state())
    sync_table(trips)
    source = {"kind": "csv", "path": "/data/weather.csv"}
    Upload.objects.create(pk=UPLOAD, owner=admin, name=f"{SECRET}.csv", bytes=9)
    do_request_write(table=trips, parameters={"source": source}, by=admin)
    followed(trips, admin)
    now = timezone.now()
    Alert.objects.create(
        pk=ALERT,
        table=trips,
        check_name="mirror",
        verdict="bad",
        sentence=SECRET,
        unwell_at=now,
        fired_at=now,
    )
    return [trips, fill("hidden-ads", admin, text=SECRET)]


@pytest.fixture
def known(hidden: list[Table]) -> dict[str, str]:
    """What addresses are made of, all of it a hidden table's."""
    trips, _ = hidden
    newest = trips.instants.order_by("requested_at").last()
    file_group, operation = trips.file_groups.first(), trips.operations.first()
    assert newest is not None
    assert file_group is not None
    assert operation is not None
    return {
        "slug": trips.slug,
        "instant": newest.requested_at,
        "requested_at": newest.requested_at,
        "operation_id": str(operation.pk),
        "approval_id": str(awaiting(trips).pk),
        "sink_id": SINK,
        "file_id": file_group.file_id,
        "service": "compaction",
        **OF_NO_TABLE,
        "alert_id": str(ALERT),
        "schedule_id": str(trips.schedules.get(name="nightly").pk),
    }


@pytest.fixture
def traces(hidden: list[Table]) -> list[str]:
    """Whatever betrays one of the hidden tables."""
    of_each = [
        trace
        for table in hidden
        for trace in (
            table.slug,
            table.location,
            *(str(key) for key in table.operations.values_list("pk", flat=True)),
            *table.instants.values_list("requested_at", flat=True),
        )
    ]
    return [SECRET, SINK, *of_each]


def text_of(client: Client, method: str, address: str) -> tuple[int, str]:
    """Status and body, without what differs from one answer to the next."""
    client.raise_request_exception = False
    is_api = address.startswith("/api/")
    content_type = "application/json" if is_api else "application/x-www-form-urlencoded"
    answer = client.generic(method, address, b"{}" if is_api else b"", content_type)
    body = b"".join(answer) if answer.streaming else answer.content
    return answer.status_code, _CHANGING.sub("", body.decode()) + answer.get("Location", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "place"),
    [("viewer", "table"), pytest.param("admin", "namespace", marks=pytest.mark.slow)],
)
def test_table_of_others_is_answered_as_one_that_there_is_not(
    role: str, place: str, known: dict[str, str], their_table: Table, as_guest: Client
) -> None:
    if place == "namespace":
        Grant.objects.update(table=None, namespace=their_table.namespace)
    Grant.objects.update(role=role)
    nothing = known | {"slug": "no-such-table", "operation_id": str(uuid.uuid4())}
    nothing["alert_id"] = str(ALERT + 1)
    nothing["approval_id"] = nothing["operation_id"]

    differing = {}
    for address in addresses():
        if not address.is_of_table:
            continue
        for method in METHODS:
            status, there = text_of(as_guest, method, address.made_of(known))
            _, nowhere = text_of(as_guest, method, address.made_of(nothing))
            for key in OF_A_TABLE:
                there, nowhere = there.replace(known[key], ""), nowhere.replace(nothing[key], "")
            if there != nowhere or (status not in (404, 405) and method != "OPTIONS"):
                differing[f"{method} {address.name}"] = status

    assert differing == {}


@pytest.mark.slow
def test_whoever_may_see_it_comes_to_all_of_it(known: dict[str, str], as_admin: Client) -> None:
    """Otherwise the test above would pass for addresses that lead nowhere."""
    refused = {
        address.name
        for address in addresses()
        if address.is_of_table
        and {text_of(as_admin, method, address.made_of(known))[0] for method in METHODS[:-1]}
        <= {404, 405}
    }

    assert refused == LEADS_NOWHERE


@pytest.mark.slow
def test_no_list_names_a_table_of_others(
    traces: list[str], known: dict[str, str], as_guest: Client
) -> None:
    leaks = {}
    for address in addresses():
        if address.is_of_table:
            continue
        for method in METHODS:
            _, text = text_of(as_guest, method, address.made_of(known))
            if seen := [trace for trace in traces if trace in text]:
                leaks[f"{method} {address.name}"] = seen

    assert leaks == {}


def test_lists_name_it_to_whoever_may_see_it(traces: list[str], as_admin: Client) -> None:
    """Otherwise the test above would look for what no list ever says."""
    lists = (
        "/",
        "/tables/",
        "/tables/rows",
        "/alerts",
        "/api/v1/tables/",
        "/api/v1/operations/",
        "/api/v1/schedules/",
    )

    said = {address: text_of(as_admin, "GET", address)[1] for address in lists}

    assert all(any(trace in text for trace in traces) for text in said.values()), said


def test_sums_and_search_count_own_tables_only(
    hidden: list[Table], as_guest: Client, as_admin: Client
) -> None:
    own, every = (client.get("/tables/").context["sums"] for client in (as_guest, as_admin))
    found_none = as_guest.get("/tables/rows?q=lake").content.decode()

    assert own == Sums(tables=1, active_writers=0, pending=0, conflicts_24h=0, late=1)
    assert min(every.pending, every.conflicts_24h) > 0
    assert "theirs" in found_none
    assert "hidden-ads" not in found_none


@pytest.mark.parametrize("question", ["trips", "hidden-ads", "nothing"])
def test_search_for_a_table_of_others_leads_where_that_for_nothing_does(
    question: str, hidden: list[Table], as_guest: Client
) -> None:
    assert as_guest.get(f"/go?q={question}")["Location"] == f"/tables/?q={question}"
    assert as_guest.get(f"/go?q=Oslo&table={question}").status_code == 404


def test_token_opens_what_its_owner_sees_and_nothing_else(
    hidden: list[Table], guest: User, client: Client
) -> None:
    _, token = create_token(guest, scope="administer")
    own = {"Authorization": f"Token {token}"}

    slugs = [row["slug"] for row in client.get("/api/v1/tables/", headers=own).json()["results"]]

    assert slugs == ["theirs"]
    assert client.get("/api/v1/tables/trips/", headers=own).status_code == 404
    assert client.get("/api/v1/operations/", headers=own).json()["results"] == []
