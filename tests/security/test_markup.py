"""Threat T16: what a table contains becomes neither element nor handler on any page, and every
answer of the site says that nothing but its own scripts may run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import NoReverseMatch

from controlplane.mirror.models import FileGroupRecord, InstantRecord
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.security.test_tables_of_others import METHODS, PARTS, Address, addresses
from tests.support.markup_payloads import payloads
from tests.support.sampling import WHOLE
from tests.web.conftest import fill
from tests.web.test_untrusted_text import Elements

DRAWN = 5
"""Of the payloads; all of them in the soak."""


def drawn() -> list[str]:
    every = payloads()
    assert len(every) >= 200
    if os.environ.get(WHOLE):
        return every
    return random.Random(os.environ["SLUICE_TEST_SEED"]).sample(every, DRAWN)


def known_of(table: Table) -> dict[str, str]:
    instant = InstantRecord.objects.filter(table=table, state="completed").earliest("pk")
    operation = Operation.objects.filter(table=table).earliest("pk")
    group = FileGroupRecord.objects.filter(table=table).earliest("pk")
    return {
        "slug": table.slug, "instant": instant.requested_at, "requested_at": instant.requested_at,
        "operation_id": str(operation.pk), "file_id": group.file_id, "service": "compaction",
        "button": "kill", "token_key": "0" * 15, "uidb64": "MQ", "token": "set-password",
        "sink_id": "orders", "check": "mirror", "change": "pause",
    }  # fmt: skip


def of(address: Address, known: dict[str, str]) -> str:
    """With a number, or an id, for whatever else it takes."""
    for other in ("1", str(UUID(int=1))):
        made = {name: known.get(name, other) for name in address.takes}
        try:
            return address.made_of(made | {"part": PARTS.get(address.name, "")})
        except NoReverseMatch:
            continue
    raise AssertionError(f"nothing leads to {address}")


def answered(client: Client, known: dict[str, str]) -> Iterator[tuple[str, Any]]:
    for address in addresses():
        if not address.name.startswith("api:"):
            yield address.name, client.get(of(address, known))


@pytest.mark.slow
def test_no_payload_in_any_field_becomes_markup_on_any_page(admin: User, as_admin: Client) -> None:
    wrong, usual = [], of_text(admin, as_admin, "w")
    for payload in drawn():
        strange = of_text(admin, as_admin, payload.replace("\0", ""))
        wrong += [(name, payload, acts - usual[name]) for name, acts in strange.items()
                  if acts - usual[name]]  # fmt: skip

    assert wrong == []
    assert len(usual) > 30


def of_text(admin: User, client: Client, text: str) -> dict[str, set[str]]:
    """By page, what a browser would act on beyond the plainest elements."""
    table = fill("ads", admin, text=text)
    acted_on = {}
    for name, answer in answered(client, known_of(table)):
        if not answer.streaming and "html" in answer.get("Content-Type", ""):
            elements = Elements()
            elements.feed(answer.content.decode())
            acted_on[name] = {*elements.strange, *elements.scripts}
    table.delete()
    return acted_on


@pytest.mark.django_db
@pytest.mark.parametrize("who", [pytest.param("admin", marks=pytest.mark.slow), "anonymous"])
def test_every_answer_allows_own_scripts_only(who: str, admin: User, as_admin: Client) -> None:
    table = fill("ads", admin)
    known = known_of(table)
    client = as_admin if who == "admin" else Client()
    client.raise_request_exception = False
    wrong = []
    for address in addresses():
        path = of(address, known)
        for method in METHODS[:2]:
            answer = client.generic(method, path)
            policy = answer.get("Content-Security-Policy", "")
            rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
            scripts = rules.get("script-src", rules.get("default-src", ""))
            is_tight = rules.get("default-src") == "'none'" and scripts == "'self'"
            others = (answer.get("X-Content-Type-Options"), answer.get("X-Frame-Options"))
            if not is_tight or others != ("nosniff", "DENY"):
                wrong.append((method, path, answer.status_code, policy, others))
            if answer.streaming:
                answer.close()

    assert wrong == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["/nothing", "/api/v1/nothing/", "/t/none/live", "/static/x.js", "/"]
)
def test_refusals_allow_own_scripts_only(path: str, client: Client) -> None:
    policy = client.get(path).get("Content-Security-Policy", "")

    assert path.startswith("/static/") or "script-src 'self'" in policy
