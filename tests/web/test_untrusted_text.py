"""Everything a table contains is untrusted: no payload, in any field, becomes an element or a
handler.
"""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.mirror.models import FileGroupRecord, HeartbeatRecord, InstantRecord
from controlplane.operations.models import Operation
from controlplane.writers.models import Conflict
from tests.web.conftest import fill

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</script><svg onload=alert(1)>",
    "<!--<script>",
    "{{ 7|add:7 }}{% now 'Y' %}",
    "javascript:alert(1)",
    "</textarea></title><iframe src=//evil>",
    "\u202e\u0000evil\u2028",
)
_OURS = """
    html head meta title link script body a div nav span svg use kbd strong br form input button
    header ol li label main h1 h2 h3 p section table thead tbody tr th td dl dt dd small time
    code details summary ul article figure figcaption polyline rect line img dialog select
    option aside progress textarea pre wbr fieldset legend text path
"""
ALLOWED = frozenset(_OURS.split())


class Elements(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.strange: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ALLOWED:
            self.strange.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.strange.append(f"{tag} {name}")
            if name in ("href", "src", "action") and not (value or "").startswith(("/", "?", "#")):
                self.strange.append(f"{tag} {name}={value}")
        if tag == "script":
            given = dict(attrs)
            self.scripts.append(given.get("src") or given.get("type") or "in line")


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_field_of_a_table_becomes_markup(payload: str, admin: User, as_admin: Client) -> None:
    fill("ads", admin, text=payload.replace("\u0000", ""))
    instant = InstantRecord.objects.filter(state="completed").earliest("pk").requested_at
    operation = Operation.objects.get()
    group = FileGroupRecord.objects.get()

    for path in (
        "/",
        "/tables/",
        "/tables/?q=" + payload,
        "/operations",
        "/operations?" + urlencode({"q": payload, "table": payload, "kind": payload}),
        "/t/ads/live",
        "/t/ads/writers",
        "/t/ads/locks",
        "/t/ads/markers",
        *(f"/t/ads/writers/{one.instant}/abort" for one in HeartbeatRecord.objects.all()),
        "/t/ads/conflicts",
        "/t/ads/conflicts?" + urlencode({"writer": payload, "kind": payload}),
        *(f"/t/ads/conflicts/{one.loser_instant}" for one in Conflict.objects.all()),
        f"/t/ads/timeline?sel={instant}",
        "/t/ads/timeline?by=stream",
        "/t/ads/timeline?retained=on&savepoints=on&archive=on",
        "/t/ads/streams?" + urlencode({"at": payload}),
        f"/t/ads/timeline/instant/{instant}",
        "/t/ads/rollback",
        "/t/ads/",
        "/t/ads/?tab=links&sel=" + instant,
        "/t/ads/files?q=" + payload,
        "/t/ads/files?" + urlencode({"partition": payload}),
        "/t/ads/files/group?" + urlencode({"partition": group.partition, "id": group.file_id}),
        "/t/ads/schema",
        "/t/ads/services",
        "/t/ads/savepoints",
        f"/t/ads/rollback/{instant}",
        f"/t/ads/operations/{operation.pk}",
        "/t/" + payload.replace("/", "") + "/live",
    ):
        elements = Elements()
        elements.feed(as_admin.get(path).content.decode())
        assert elements.strange == [], path
        assert all(
            one.startswith("/static/") or one == "application/json" for one in elements.scripts
        )
