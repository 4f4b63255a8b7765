"""Lists that one statement reads hold what each would read for itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery, Sum
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.mirror.models import (
    FileGroupRecord,
    HeartbeatRecord,
    InstantRecord,
    MarkerDirectory,
    ServerSample,
    StreamStatus,
)
from controlplane.operations.models import Operation
from controlplane.read_together import read_together
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from tests.web.conftest import fill


def lists() -> list[QuerySet[Any, Any]]:
    """Models with relations, JSON, UUIDs and times; values; sums; slices; nothing at all."""
    markers = MarkerDirectory.objects.filter(table=OuterRef("pk")).order_by()
    return [
        Operation.objects.select_related("table", "requested_by").order_by("-requested_at")[:8],
        HeartbeatRecord.objects.select_related("table").only("instant", "beat_at", "table__slug"),
        Conflict.objects.order_by("-decided_at", "loser_instant", "pk")[:3],
        Table.objects.annotate(
            marked=Subquery(markers.values("table").annotate(n=Sum("markers")).values("n")),
            has_markers=Exists(markers),
        ),
        InstantRecord.objects.order_by("pk").values_list("requested_at", "metadata", "table__name"),
        InstantRecord.objects.order_by("action").values_list("action").annotate(n=Count("pk")),
        FileGroupRecord.objects.values("file_id", "bytes", "history"),
        ServerSample.objects.order_by("pk").values_list("at", "up", "p50_ms"),
        StreamStatus.objects.filter(lag_s__gt=1).values_list("lag_s", flat=True),
        Table.objects.filter(pk__in=[]),
        Table.objects.filter(slug="nothing"),
    ]


def read_values(queryset: QuerySet[Any, Any]) -> list[Any]:
    """What the rows hold, of models with what they were joined to."""
    return [read_fields(row) if hasattr(row, "_meta") else row for row in queryset]


def read_fields(row: Any) -> dict[str, Any]:
    joined = {
        name: read_fields(of) for name, of in row._state.fields_cache.items() if of is not None
    }
    return {name: of for name, of in vars(row).items() if name != "_state"} | joined


@pytest.mark.django_db
def test_each_list_is_the_one_that_it_reads_alone() -> None:
    fill("ads", User.objects.create_user("ada"), text='a "quoted" word — and \x01')
    apart = [read_values(queryset) for queryset in lists()]
    together = lists()

    with CaptureQueriesContext(connection) as queries:
        read_together(*together)
        rows = [read_values(queryset) for queryset in together]

    assert len(queries) == 1
    assert rows == apart
    assert [len(of) for of in apart[:3]] == [1, 1, 2]


@pytest.mark.django_db
def test_what_was_read_before_is_not_read_again() -> None:
    Table.objects.create(slug="ads", name="ads", location="/lake/ads")
    tables = Table.objects.all()
    assert len(tables) == 1
    Table.objects.update(synced_at=timezone.now() - timedelta(days=1))

    with CaptureQueriesContext(connection) as queries:
        read_together(tables, tables)

    assert len(queries) == 0
    assert tables[0].synced_at is None


@pytest.mark.django_db
def test_a_list_is_refined_by_a_query_of_its_own_afterwards() -> None:
    Table.objects.create(slug="ads", name="ads", location="/lake/ads")
    tables = Table.objects.all()
    read_together(tables)
    Table.objects.create(slug="bids", name="bids", location="/lake/bids")

    assert [table.slug for table in tables] == ["ads"]
    assert [table.slug for table in tables.filter(slug="bids")] == ["bids"]
