"""Tables as their mirror has them, without storage, and a scrape as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from pytest_django import Settings

from controlplane.mirror.models import (
    HeartbeatRecord,
    InstantRecord,
    ServerSample,
    SinkParticipant,
    SinkRecord,
    SyncMark,
)
from controlplane.monitoring import readiness
from controlplane.monitoring.channels.actions import NewChannel, do_create_channel
from controlplane.monitoring.models import TableHealth
from controlplane.operations.models import MarkerServer, Operation
from controlplane.outgoing.addresses import read_allowed
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from tests.controlplane.monitoring.channel_steps import wish
from tests.support.receivers import Receiver, receiving
from workers.clock import format_instant

Scrape = Callable[[], dict[tuple[str, frozenset[tuple[str, str]]], float]]
BASE = datetime.fromisoformat("2026-11-20T10:00:00+00:00")


@pytest.fixture(autouse=True)
def _fresh_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are kept for a moment, which is longer than a test."""
    monkeypatch.setattr(readiness, "_check_runner", readiness.create_check_runner())


@pytest.fixture
def scraped(client: Client, settings: Settings) -> Scrape:
    """Every sample by its name and labels."""

    def scrape() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        answer = client.get(
            "/metrics", headers={"Authorization": f"Bearer {settings.SLUICE_METRICS_TOKEN}"}
        )
        assert answer.status_code == 200, answer.content
        return {_key(sample): sample.value for sample in samples(answer.content.decode())}

    return scrape


def samples(text: str) -> list[Sample]:
    families = list(text_string_to_metric_families(text))
    return [sample for family in families for sample in family.samples]


def _key(sample: Sample) -> tuple[str, frozenset[tuple[str, str]]]:
    return sample.name, frozenset(sample.labels.items())


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """Of a sample, as `scraped` has it."""
    return name, frozenset(labels.items())


def busy_table(slug: str) -> Table:
    """With one of everything that has a figure."""
    now = timezone.now()
    at = format_instant(int(BASE.timestamp() * 1000))
    table = Table.objects.create(slug=slug, name=slug, location=f"/lake/{slug}", synced_at=now)
    SyncMark.objects.create(table=table, tried_at=now)
    InstantRecord.objects.create(
        table=table, requested_at=at, completed_at=at, action="deltacommit", state="completed"
    )
    later = format_instant(int(BASE.timestamp() * 1000) + 5_000)
    InstantRecord.objects.create(
        table=table, requested_at=later, action="deltacommit", state="inflight"
    )
    for instant, age in ((later, timedelta()), (at, timedelta(hours=1))):
        HeartbeatRecord.objects.create(
            table=table,
            instant=instant,
            beat_at=now - age,
            interval_ms=60_000,
            tolerable_misses=2,
            last_seen=now,
        )
    for instant, age in ((later, timedelta()), (at, timedelta(days=2))):
        Conflict.objects.create(
            table=table, loser_instant=instant, kind="write", decided_at=now - age
        )
    TableHealth.objects.create(table=table, looked_at=now, verdicts={"compaction": "warn"})
    sink = SinkRecord.objects.create(
        table=table, sink_id="orders", epoch=3, state="STARTED_COMMIT", instant=at, updated_at=now
    )
    SinkParticipant.objects.create(sink=sink, partition=0, broker_offset=70, table_offset=50)
    SinkParticipant.objects.create(sink=sink, partition=1, broker_offset=7)
    Operation.objects.create(table=table, kind="write", state="running")
    return table


def marker_server() -> None:
    """As supervision saw it last."""
    MarkerServer.objects.create(port=8766, restarts=2, started_at=timezone.now())
    ServerSample.objects.create(
        at=timezone.now(), up=True, queue_depth=4, batches=5, requests=6, markers=7, p50_ms=2.5
    )


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    with receiving() as receiver:
        settings.SLUICE_OUTGOING_ALLOWED = read_allowed(f"127.0.0.1:{receiver.port}")
        yield receiver


@pytest.fixture
def webhook(receiver: Receiver, admin: User) -> NewChannel:
    return do_create_channel(wish(receiver), by=admin)
