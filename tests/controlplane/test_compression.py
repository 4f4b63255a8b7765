"""Whole answers are compressed for whoever takes that; streams and short ones stay as they are."""

from __future__ import annotations

import gzip

from django.contrib.auth.models import User
from django.test import Client

from controlplane.mirror.sync import sync_table
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake

INSTANTS = "/api/v1/tables/trips/instants/"
TAKES_GZIP = {"Accept-Encoding": "gzip, br"}


def test_a_page_and_a_list_are_compressed_and_say_the_same(
    client: Client, viewer: User, synced: Table, lake: Lake
) -> None:
    for number in range(5):
        lake.commit({"id": str(number), "ts": number, "city": "Oslo"})
    sync_table(synced)
    client.force_login(viewer)

    plain = client.get(INSTANTS)
    packed = client.get(INSTANTS, headers=TAKES_GZIP)
    page = client.get("/t/trips/timeline", headers=TAKES_GZIP)

    assert not plain.has_header("Content-Encoding")
    assert "Accept-Encoding" in plain["Vary"]
    assert packed["Content-Encoding"] == page["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content
    assert len(packed.content) * 2 < len(plain.content)
    assert b"</html>" in gzip.decompress(page.content)


def test_an_answer_that_is_known_is_304_whether_compressed_or_not(
    client: Client, viewer: User, synced: Table
) -> None:
    client.force_login(viewer)
    etag = client.get(INSTANTS)["ETag"]

    again = client.get(INSTANTS, headers={**TAKES_GZIP, "If-None-Match": etag})

    assert (again.status_code, again.content) == (304, b"")
