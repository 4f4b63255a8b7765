"""Threat T12: who lets others read rows and who masks columns, by page, API and shell; and what
whoever may not read learns by a question that shows no value.
"""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from controlplane.accounts.models import Grant
from controlplane.audit.models import AuditEvent
from controlplane.mirror.masking import masked_columns
from controlplane.mirror.queries.health import health_checks
from controlplane.monitoring.alert_rules import CHECKS
from controlplane.operations.actions import do_request_service, plan_service
from controlplane.tables.masks import MASK
from controlplane.tables.models import MaskedColumn, RowGrant, Table
from controlplane.tables.row_access import row_access

PATH = "/api/v1/row-grants/"


@pytest.fixture
def people(db: None) -> dict[str, User]:
    """`nina` is an admin of the namespace sales, `tom` of the table deals alone."""
    deals = Table.objects.create(slug="deals", name="d", namespace="sales", location="/lake/deals")
    Table.objects.create(slug="wages", name="w", namespace="hr", location="/lake/wages")
    people = {name: User.objects.create_user(name) for name in ("nina", "tom", "pia")}
    Grant.objects.create(user=people["nina"], namespace="sales", role="admin")
    Grant.objects.create(user=people["tom"], table=deals, role="admin")
    Group.objects.create(name="night shift")
    return people


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def shell(*words: str) -> str:
    said = StringIO()
    call_command(*words, stdout=said)
    return said.getvalue()


# Who gives, what he gives to whom and where; then the status.
CASES = """
nina right=rows   user=pia          namespace=sales 201
nina right=masked user=pia          table=deals     201
nina right=rows   group=night-shift table=deals     201
nina right=rows   group=operator    table=deals     201
nina right=rows   user=pia          everywhere=1    403
nina right=rows   user=pia          namespace=hr    403
nina right=rows   user=pia          table=wages     404
nina right=rows   user=pia          table=none      404
nina right=rows   user=nobody       table=deals     400
nina right=rows   group=nobody      table=deals     400
nina right=all    user=pia          table=deals     400
nina right=rows   user=pia                          400
nina right=rows                     table=deals     400
nina right=rows   user=pia          table=deals,namespace=sales 400
tom  right=rows   user=pia          table=deals     403
pia  right=rows   user=pia          table=deals     403
ada  right=masked user=pia          everywhere=1    201
ada  right=rows   user=pia          table=wages     201
"""


@pytest.mark.parametrize("line", [line.split() for line in CASES.strip().splitlines()])
def test_admins_of_the_place_give_and_nobody_else(
    line: list[str], people: dict[str, User], admin: User
) -> None:
    giver, *words, status = line
    given = dict(word.split("=") for part in words for word in part.split(","))
    body = {key: text.replace("-", " ") for key, text in given.items()}
    client = signed_in({**people, "ada": admin}[giver])

    answer = client.post(PATH, body, content_type="application/json")

    assert answer.status_code == int(status)
    audited = AuditEvent.objects.filter(what="rows.give", who=people.get(giver, admin).username)
    assert (RowGrant.objects.count(), audited.count()) == ((1, 1) if status == "201" else (0, 0))


def test_page_gives_and_takes(people: dict[str, User]) -> None:
    client, pia = signed_in(people["nina"]), people["pia"]
    deals = Table.objects.get(slug="deals")
    Grant.objects.create(user=pia, table=deals, role="viewer")

    neither = client.post("/access/rows", {"right": "rows", "user": "pia"})
    given = client.post("/access/rows", {"right": "rows", "user": "pia", "table": "deals"})
    may_read = row_access(pia, deals).may_read
    [take] = re.findall(r"/access/rows/\d+/take", client.get("/access").content.decode())
    client.post(take, {"confirmed": "yes"})

    assert (neither.status_code, given.status_code, may_read) == (422, 302, True)
    assert "or choose all tables" in neither.content.decode()
    assert not row_access(pia, deals).may_read
    assert AuditEvent.objects.get(what="rows.take").details["user"] == "pia"


def test_each_is_shown_the_readers_of_his_places(people: dict[str, User], admin: User) -> None:
    for place in ({"namespace": "hr"}, {"table": Table.objects.get(slug="deals")}, {}):
        RowGrant.objects.create(user=people["pia"], right="rows", **place)

    shown = {
        user.username: [
            row["table"] or row["namespace"] for row in signed_in(user).get(PATH).json()
        ]
        for user in (people["nina"], people["tom"], admin)
    }

    assert shown == {"nina": ["deals"], "tom": [], "ada": ["", "deals", "hr"]}


def test_shell_gives_lists_and_takes(people: dict[str, User]) -> None:
    given = shell("grant", "give", "rows", "--user", "pia", "--everywhere", "--reason", "on call")
    again = shell("grant", "give", "masked", "--user", "pia", "--everywhere")
    number = again.split("\t")[0]

    assert given.split("\t")[1:4] == ["pia", "rows", "everywhere"]
    assert again in shell("grant", "list")
    assert shell("grant", "take", number).startswith(f"revoked: {number}\tpia\tmasked")
    assert not RowGrant.objects.exists()
    assert [row.reason for row in AuditEvent.objects.filter(what="rows.give").order_by("pk")] == [
        "on call",
        "",
    ]
    with pytest.raises(CommandError, match="row access"):
        shell("grant", "take", number)
    with pytest.raises(CommandError, match="invalid grant id"):
        shell("grant", "take", "rx")
    with pytest.raises(CommandError, match="cannot be granted everywhere"):
        shell("grant", "give", "viewer", "--user", "pia", "--everywhere")


def test_columns_are_masked_by_page_api_and_shell(
    trips: Table, as_admin: Client, viewer: User
) -> None:
    as_viewer = signed_in(viewer)
    api, page = f"/api/v1/tables/{trips.slug}/masked-columns/", "/t/trips/settings/masks"

    done = as_admin.put(api, {"columns": ["CITY", "ts"]}, content_type="application/json").json()
    refused = as_viewer.put(api, {"columns": []}, content_type="application/json").status_code
    looked = as_viewer.get(page).content.decode()
    as_admin.post(page, {"columns": "city\n\n", "reason": "told to"})

    assert (done, refused) == ({"columns": ["CITY", "ts"], "unknown": []}, 403)
    assert "CITY" in looked
    assert shell("table", "mask", "trips") == "city\n"
    assert shell("table", "mask", "trips", "--none") == ""
    audited = AuditEvent.objects.filter(what="columns.mask").order_by("pk")
    assert [row.details["masked"] for row in audited] == [["CITY", "ts"], ["city"], []]
    assert audited[1].reason == "told to"


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ("citty", "olumn not found in the table"),
        ("city.zip", "olumn not found in the table"),
        ("_hoodie_record_key", "meta columns cannot be masked"),
        ("TS", "partition column cannot be masked"),
    ],
)
def test_mask_that_would_mask_nothing_is_refused(
    column: str, why: str, trips: Table, as_admin: Client
) -> None:
    Table.objects.filter(pk=trips.pk).update(partition_by="ts:timestamp")

    answer = as_admin.post("/t/trips/settings/masks", {"columns": f"id\n{column}", "reason": "r"})

    assert answer.status_code == 400
    assert why in answer.content.decode()
    assert not MaskedColumn.objects.exists()


def test_masked_column_that_is_gone_is_said(trips: Table, as_admin: Client) -> None:
    MaskedColumn.objects.create(table=trips, path="town")

    assert masked_columns(trips).unknown == ["town"]
    assert "no longer masked" in as_admin.get("/t/trips/settings/masks").content.decode()
    (check,) = [check for check in health_checks(trips, timezone.now()) if check.name == "masks"]
    assert (check.verdict, check.sentence.split(":")[0]) == ("bad", "town")
    assert "masks" in CHECKS

    MaskedColumn.objects.update(path="city")
    (check,) = [check for check in health_checks(trips, timezone.now()) if check.name == "masks"]
    assert check.verdict == "good"
    MaskedColumn.objects.all().delete()
    assert "masks" not in {check.name for check in health_checks(trips, timezone.now())}


def test_nobody_counts_rows_by_a_condition_who_may_not_see_all_of_them(
    trips: Table, viewer: User
) -> None:
    as_viewer = signed_in(viewer)
    page, api = "/t/trips/services/run/delete", "/api/v1/tables/trips/services/delete/plan/"
    body = {"parameters": {"predicate": "city = 'Oslo'"}}

    def statuses() -> list[int]:
        by_api: Any = as_viewer.post(api, body, content_type="application/json")
        return [as_viewer.get(page, body["parameters"]).status_code, by_api.status_code]

    as_reader = statuses()
    MaskedColumn.objects.create(table=trips, path="city")
    behind_mask = statuses()
    RowGrant.objects.all().delete()
    without = statuses()

    assert (as_reader, behind_mask, without) == ([200, 200], [403, 403], [403, 403])


def test_audit_says_that_rows_were_deleted_and_not_by_which_values(
    trips: Table, admin: User
) -> None:
    parameters = {"predicate": "city = 'Oslo'"}
    plan = plan_service(trips, "delete", parameters, admin)

    do_request_service(trips, "delete", parameters, plan.plan_hash, "gone", "trips", admin)

    event = AuditEvent.objects.get(what="service.delete")
    assert event.details["parameters"] == {"predicate": MASK}
