"""The audit's page: its rows, filters and banner; who may read it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from controlplane.accounts.models import Grant
from controlplane.audit.actions import do_append_to_chain, do_record
from controlplane.audit.models import AuditEvent
from controlplane.audit.verification import do_verify_round
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.web.test_untrusted_text import PAYLOADS, Elements


@pytest.fixture
def as_auditor(db: None) -> Client:
    auditor = User.objects.create_user("audrey", password="a long password")
    auditor.groups.add(Group.objects.get(name="auditor"))
    client = Client()
    client.force_login(auditor)
    return client


def record(number: int = 0, **given: str) -> AuditEvent:
    words = {"who": "olaf", "what": "service.clean", "subject": "ads", "result": "requested"}
    event = do_record(**{**words, **given}, details={"number": number})
    do_append_to_chain()
    event.refresh_from_db()
    return event


def test_an_auditor_reads_it_and_is_led_there_and_a_viewer_does_neither(
    as_auditor: Client, as_viewer: Client
) -> None:
    assert as_auditor.get("/audit").status_code == 200
    assert 'href="/audit"' in as_auditor.get("/").content.decode()
    assert as_viewer.get("/audit").status_code == 403
    assert 'href="/audit"' not in as_viewer.get("/").content.decode()


def test_an_admin_of_one_namespace_reads_nothing_of_it(nobody: User) -> None:
    Grant.objects.create(user=nobody, namespace="default", role="admin")
    event = record()
    client = Client()
    client.force_login(nobody)

    there = ("/audit", f"/audit/{event.pk}", *(f"/api/v1/audit/{path}" for path in (
        "", "chain/", "export/", f"{event.pk}/",
    )))  # fmt: skip
    assert {path: client.get(path).status_code for path in there} == dict.fromkeys(there, 403)
    assert not AuditEvent.objects.filter(what="audit.export").exists()


def test_rows_are_newest_first_a_page_at_a_time(as_auditor: Client) -> None:
    for number in range(60):
        record(number, reason=f"because {number:03}")

    first = as_auditor.get("/audit")
    older = as_auditor.get("/audit", {"before": first.context["next_cursor"]})

    assert [row.details["number"] for row in first.context["rows"]] == list(range(59, 9, -1))
    assert [row.details["number"] for row in older.context["rows"]] == list(range(9, -1, -1))
    assert "because 059" in first.content.decode()


def test_filters_narrow_the_list_and_the_exports(as_auditor: Client) -> None:
    record(1)
    record(2, who="ada", reason="hers")

    page = as_auditor.get("/audit?who=ada&since=2020-01-01T00:00")

    assert [row.details["number"] for row in page.context["rows"]] == [2]
    wanted = "who=ada&since=2020-01-01T00%3A00%3A00%2B00%3A00"
    assert page.context["export_csv"] == f"/api/v1/audit/export/?{wanted}&file_format=csv"
    assert as_auditor.get(page.context["export_csv"]).status_code == 200
    assert "No matching audit rows" in as_auditor.get("/audit?who=eve").content.decode()
    early = quote("0001-01-01T00:00:00+23:59")
    for wrong in ("since=yesterday", f"until={early}", f"before={early}_1"):
        assert as_auditor.get(f"/audit?{wrong}").status_code == 400


def test_details_lead_to_the_table_and_the_operation(as_auditor: Client, busy: Table) -> None:
    operation = Operation.objects.filter(table=busy).first()
    assert operation is not None
    event = do_record(
        who="olaf", what="operation.write", subject=busy.slug, result="done",
        plan_hash="ab12cd", details={"operation": str(operation.pk)},
    )  # fmt: skip
    other = record(subject="gone", what="table.register")

    page = as_auditor.get(f"/audit/{event.pk}").content.decode()

    assert f'href="/t/ads/operations/{operation.pk}"' in page
    assert 'href="/t/ads/"' in page
    assert "ab12cd" in page
    assert "not chained yet" in page or event.digest in page
    assert other.hash in as_auditor.get(f"/audit/{other.pk}").content.decode()
    assert as_auditor.get("/audit/999999").status_code == 404


def test_the_banner_says_what_the_last_check_said(as_auditor: Client) -> None:
    record()
    before = as_auditor.get("/audit").content.decode()
    do_verify_round(timezone.now())
    after = as_auditor.get("/audit").content.decode()

    assert "The chain has not been verified yet." in before
    assert "Every row up to 1 is unchanged." in after


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_field_of_a_row_becomes_markup(payload: str, as_auditor: Client) -> None:
    text = payload.replace("\x00", "")
    event = do_record(
        who=text, what=text, subject=text, result=text[:32], reason=text, plan_hash=text,
        details={text: text},
    )  # fmt: skip

    for path in ("/audit", "/audit?" + urlencode({"who": text}), f"/audit/{event.pk}"):
        seen = Elements()
        seen.feed(as_auditor.get(path).content.decode())
        assert seen.strange == [], path


def test_yesterday_keeps_the_other_filters(as_admin: Client) -> None:
    answer = as_admin.get("/audit", {"who": "ada", "since": "2020-01-01T00:00", "day": "yesterday"})

    query = dict(parse_qsl(urlsplit(answer.headers["Location"]).query))
    since, until = (datetime.fromisoformat(query[name]) for name in ("since", "until"))
    assert query["who"] == "ada"
    assert until - since == timedelta(days=1)
    assert until.replace(tzinfo=UTC) <= datetime.now(UTC) < until.replace(tzinfo=UTC) + timedelta(1)
