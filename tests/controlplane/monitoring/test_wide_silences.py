"""Silences of a namespace, of everything, and of every check: what they reach, whose they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from controlplane.accounts.models import Grant
from controlplane.audit.models import AuditEvent
from controlplane.mirror.health_check import Check
from controlplane.monitoring.actions import do_end_silence, do_silence
from controlplane.monitoring.health import update_alerts
from controlplane.monitoring.models import Alert, Message, Silence
from controlplane.monitoring.queries import load_alert_board
from controlplane.tables.models import Table
from tests.controlplane.monitoring.conftest import Scrape, key

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def fleet(db: None) -> dict[str, Table]:
    """Two tables of the namespace sales, one of hr; two checks of each fire."""
    tables = {
        slug: Table.objects.create(slug=slug, name=slug, namespace=namespace, location=f"/l/{slug}")
        for slug, namespace in (("orders", "sales"), ("refunds", "sales"), ("people", "hr"))
    }
    for table in tables.values():
        settle(table, NOW - timedelta(minutes=2))
        settle(table, NOW - timedelta(minutes=1))
    return tables


@pytest.fixture
def seller(fleet: dict[str, Table], nobody: User) -> User:
    """An operator of the namespace sales alone."""
    Grant.objects.create(user=nobody, namespace="sales", role="operator", granted_at=NOW)
    return nobody


def settle(table: Table, at: Any) -> None:
    checks = [
        Check(name=name, title=name, verdict="warn", sentence="late")
        for name in ("cleaning", "compaction")
    ]
    update_alerts(table, checks, at)


def firing(user: User) -> set[tuple[str, str]]:
    return {(row.slug, row.check) for row in load_alert_board(user, timezone.now()).firing}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("reach", "every_check", "left"),
    [
        ("table", False, 5),
        ("table", True, 4),
        ("namespace", False, 4),
        ("namespace", True, 2),
        ("everywhere", False, 3),
        ("everywhere", True, 0),
    ],
)
def test_silence_reaches_as_far_as_it_says_and_no_further(
    fleet: dict[str, Table],
    operator: User,
    scraped: Scrape,
    reach: Any,
    every_check: bool,
    left: int,
) -> None:
    do_silence(
        table=fleet["orders"], check="cleaning", hours=1, reason="a move", by=operator,
        reach=reach, every_check=every_check,
    )  # fmt: skip

    assert len(firing(operator)) == left
    assert len(load_alert_board(operator, timezone.now()).silenced) == 6 - left
    assert scraped()[key("sluice_alerts_firing", verdict="warn")] == left
    assert len(load_alert_board(operator, timezone.now() + timedelta(hours=2)).firing) == 6


def test_nobody_is_called_while_a_wide_silence_holds(
    fleet: dict[str, Table], operator: User, webhook: object
) -> None:
    new = Table.objects.create(slug="new", name="new", namespace="sales", location="/l/new")
    other = Table.objects.create(slug="other", name="other", namespace="hr", location="/l/other")
    do_silence(
        table=fleet["orders"], check="cleaning", hours=1, reason="a move", by=operator,
        reach="namespace", every_check=True,
    )  # fmt: skip

    for table in (new, other):
        settle(table, timezone.now() - timedelta(minutes=2))
        settle(table, timezone.now())

    called = Message.objects.values_list("alerts__table__slug", flat=True)
    assert "new" not in called
    assert "other" in called


def test_a_silence_is_of_whoever_is_operator_as_far_as_it_reaches(
    fleet: dict[str, Table], seller: User, operator: User
) -> None:
    words: dict[str, Any] = {"table": fleet["orders"], "check": "cleaning", "hours": 1}
    do_silence(**words, reason="ours", by=seller, reach="namespace")
    with pytest.raises(PermissionDenied, match="everywhere"):
        do_silence(**words, reason="all", by=seller, reach="everywhere")
    do_silence(**words, reason="all", by=operator, reach="everywhere")

    alert = Alert.objects.get(table=fleet["orders"], check_name="cleaning")
    do_end_silence(alert_id=alert.pk, by=seller)
    with pytest.raises(PermissionDenied, match="everywhere"):
        do_end_silence(alert_id=alert.pk, by=seller)

    (left,) = Silence.objects.all()
    assert (left.table, left.namespace) == (None, "")
    (row,) = load_alert_board(seller, timezone.now()).wide_silences
    assert (row.reach, row.reason, row.may_end) == ("everywhere", "all", False)
    reaches = AuditEvent.objects.filter(what="alert.silence").values_list(
        "details__reach", flat=True
    )
    assert set(reaches) == {"namespace", "everywhere"}


def test_whoever_sees_no_table_of_a_namespace_sees_no_silence_of_it(
    fleet: dict[str, Table], seller: User, operator: User
) -> None:
    """Threat T12."""
    do_silence(
        table=fleet["people"], check="cleaning", hours=1, reason="hidden", by=operator,
        reach="namespace",
    )  # fmt: skip

    assert load_alert_board(seller, timezone.now()).wide_silences == []
    assert len(load_alert_board(operator, timezone.now()).wide_silences) == 1


def test_page_and_api_make_a_wide_one(
    fleet: dict[str, Table], client: Client, seller: User
) -> None:
    client.force_login(seller)
    alert = Alert.objects.get(table=fleet["orders"], check_name="cleaning")
    page, api = f"/alerts/{alert.pk}/silence", f"/api/v1/alerts/{alert.pk}/silence/"
    words = {"hours": 4, "reason": "a move", "reach": "namespace", "what": "all"}

    refused = client.post(page, {**words, "reach": "everywhere"})
    made = client.post(page, words)
    shown = client.get("/alerts").content.decode()
    body = {"hours": 1, "reason": "x", "reach": "everywhere"}
    by_api = client.post(api, body, content_type="application/json")

    assert (refused.status_code, made.status_code, by_api.status_code) == (422, 302, 403)
    assert "requires the operator role everywhere" in refused.content.decode()
    assert "Silences on several tables" in shown
    assert "on all tables in sales" in shown
    assert firing(seller) == set()


def test_one_silence_of_a_place_and_check_is_kept(db: None) -> None:
    words = {"namespace": "sales", "check_name": "", "until": NOW, "by": "x", "reason": "y"}
    Silence.objects.create(**words)

    with pytest.raises(IntegrityError), transaction.atomic():
        Silence.objects.create(**words)
