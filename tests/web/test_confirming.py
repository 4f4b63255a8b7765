"""Confirm before something is taken away: the first POST changes nothing and lists what stops
working, the button on its page does it, and the audit names the user or group that lost it.
"""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from controlplane.accounts.models import Grant, Token
from controlplane.accounts.tokens import create_token
from controlplane.audit.models import AuditEvent
from controlplane.audit.queries import to_audit_row
from controlplane.monitoring.channels.actions import ChannelSpec, do_create_channel
from controlplane.operations.models import Operation, Schedule
from controlplane.sql.saved import QueryWords, do_save_query
from controlplane.tables.models import RowGrant, Table
from tests.support.schedules import nightly

_HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)"')


def press(client: Client, address: str, question: str, reason: str) -> int:
    """Send the form of the question, as a browser without JavaScript does."""
    [form] = re.findall(r'<form method="post" class="panel-body confirm".*?</form>',
                        question, re.DOTALL)  # fmt: skip
    words = {unescape(name): unescape(value) for name, value in _HIDDEN.findall(form)}
    return client.post(address, {**words, "reason": reason}).status_code


@pytest.fixture
def addresses(trips: Table, admin: User) -> dict[str, str]:
    """Something of each kind that can be taken away -> the address that takes it."""
    pia, crew = User.objects.create_user("pia"), Group.objects.create(name="crew")
    pia.groups.add(crew, Group.objects.get_or_create(name="operator")[0])
    role = Grant.objects.create(user=pia, table=trips, role="operator", granted_at=timezone.now())
    Grant.objects.create(group=crew, namespace=trips.namespace, role="viewer")
    rows = RowGrant.objects.create(user=pia, table=trips, right="rows")
    token, _ = create_token(pia, scope="operate", name="nightly load")
    Token.objects.update(last_used_at=timezone.now() - timedelta(days=400))
    Operation.objects.create(
        table=trips, kind="write", state="queued", requested_by=pia, parameters={"job": {}}
    )
    schedule = nightly(trips, admin)
    Schedule.objects.update(owner=pia)
    query = do_save_query(
        QueryWords(name="q", statement="SELECT 1", note="", namespace=""), by=admin
    )
    wish = ChannelSpec(name="ops", kind="webhook", address="https://203.0.113.7/x", namespaces=[])
    channel = do_create_channel(wish, by=admin).channel
    return {
        "role": f"/access/{role.pk}/take",
        "rows": f"/access/rows/{rows.pk}/take",
        "token": f"/tokens/{token.token_key}/revoke",
        "schedule": f"/t/trips/schedules/{schedule.pk}/delete",
        "query": f"/sql/saved/{query.id}/delete",
        "channel": f"/alerts/channels/{channel.id}/delete",
        "member": f"/people/groups/{crew.pk}/remove",
        "roles": f"/people/{pia.pk}/roles",
        "lock": f"/people/{pia.pk}/lock",
        "group": f"/people/groups/{crew.pk}/delete",
    }


ROLE_GOES = ("trips", "1 queued", "trips/nightly")
CASES = {
    "role": (("pia", "role operator", *ROLE_GOES), "pia: operator"),
    "rows": (("pia", "reads rows", *ROLE_GOES), "pia: rows"),
    "token": (("pia", "nightly load", f"{timezone.now().year - 1}-"), "pia: nightly load, operate"),
    "schedule": (("nightly", "as pia", "02:30 C"), ""),
    "query": (("q", "ada"), ""),
    "channel": (("ops", "no longer sent"), ""),
    "member": (("pia", "crew", "viewer", *ROLE_GOES), "pia"),
    "roles": (("pia", "operator", *ROLE_GOES), "pia: operator"),
    "lock": (("pia", "tokens (1)", *ROLE_GOES), "pia"),
    "group": (("crew", "pia", "viewer"), "group crew"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_button_that_takes_something_away_asks_first(
    case: str, addresses: dict[str, str], as_admin: Client
) -> None:
    facts, concerns = CASES[case]
    before = AuditEvent.objects.count()
    as_admin.post("/preferences", {"zone": "named", "name": "Europe/Oslo"})
    body = {"user": "pia"} if case == "member" else {}

    first = as_admin.post(addresses[case], body)
    unchanged = AuditEvent.objects.count()
    status = press(as_admin, addresses[case], first.content.decode(), "no longer here")

    text = unescape(first.content.decode())
    assert (first.status_code, unchanged, status) == (200, before, 302)
    assert [words for words in facts if words not in text] == []
    newest = AuditEvent.objects.latest("pk")
    assert AuditEvent.objects.count() > before
    assert to_audit_row(newest).concerns == concerns
    assert newest.reason == ("" if case in ("query", "channel") else "no longer here")


def test_roles_that_are_only_added_are_set_at_once(
    addresses: dict[str, str], as_admin: Client
) -> None:
    answer = as_admin.post(addresses["roles"], {"roles": ["operator", "auditor"]})

    assert answer.status_code == 302
