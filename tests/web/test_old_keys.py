"""An append-only table whose keys were made before they held topic ids says so on its page."""

from __future__ import annotations

import pytest
from django.test import Client

from controlplane.tables.models import Table
from workers.sink.tables import APPEND_KEY, NAMED_KEY


@pytest.mark.parametrize(
    ("key", "is_told"), [(NAMED_KEY, True), (APPEND_KEY, False), (("id",), False)]
)
def test_old_keys_of_an_appending_sink_are_named_with_what_they_mean(
    key: tuple[str, ...], is_told: bool, busy: Table, as_viewer: Client
) -> None:
    Table.objects.filter(pk=busy.pk).update(record_key=",".join(key))

    html = as_viewer.get("/t/ads/").content.decode()

    assert ("the new one needs a table of its own" in html) is is_told
