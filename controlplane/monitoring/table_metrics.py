"""Figures of tables and of the mirror that reads them, from the database. Eight queries, however
many tables.

At most `SLUICE_METRICS_TABLES_MAX` tables have labels of their own: those with the newest day of
activity, the newest tables first. The rest is counted, and is in every figure without labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import CharField, Count, Exists, Max, Min, OuterRef, Q, Subquery, Value
from django.db.models.functions import Cast, Coalesce, Greatest, Replace, Substr, TruncDate
from prometheus_client.core import GaugeMetricFamily, Metric

from controlplane.mirror.models import HeartbeatRecord, InstantRecord
from controlplane.monitoring.models import Alert, Silence, TableHealth
from controlplane.monitoring.silences import match_silences
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS, OPEN_INSTANTS
from workers.clock import InstantTime, parse_instant

CONFLICTS_WITHIN = timedelta(days=1)
BY_TABLE = ("table", "namespace")
_ALIVE = ("alive", "suspect")

Labels = tuple[str, str]
"""Slug and namespace."""


def load_table_labels() -> dict[int, Labels]:
    """Return the labels of tables by key. One query.

    Days, not moments, decide who has them: a series should not begin and end with each commit.
    """
    registered_day = Replace(
        Cast(TruncDate("registered_at", tzinfo=UTC), CharField()), Value("-"), Value("")
    )
    committed_day = Substr(Coalesce("sync_mark__last_completed_at", Value("")), 1, 8)
    newest = Table.objects.annotate(active_day=Greatest(committed_day, registered_day)).order_by(
        "-active_day", "-pk"
    )[: settings.SLUICE_METRICS_TABLES_MAX]
    rows = newest.values_list("pk", "slug", "namespace")
    return {pk: (slug, namespace) for pk, slug, namespace in sorted(rows)}


def build_table_metrics(labelled: dict[int, Labels], now: datetime) -> Iterable[Metric]:
    """Each labelled table has every figure but those of what never happened to it."""
    tables = Table.objects.filter(pk__in=labelled) if labelled else Table.objects.none()
    synced = _create_family(
        "sluice_table_synced_timestamp_seconds", "When the mirror last looked at it."
    )
    committed = _create_family(
        "sluice_table_last_commit_timestamp_seconds", "When its newest commit of rows completed."
    )
    failing = _create_family(
        "sluice_table_unreadable", "1 where the mirror cannot read its storage."
    )
    rows = tables.annotate(last=_last_commit()).values_list("pk", "synced_at", "sync_error", "last")
    for pk, synced_at, sync_error, last in rows:
        if synced_at is not None:
            synced.add_metric(labelled[pk], synced_at.timestamp())
        if last is not None:
            committed.add_metric(labelled[pk], _timestamp(last))
        failing.add_metric(labelled[pk], float(bool(sync_error)))
    yield from (synced, committed, failing)
    for name, about, counts in (
        ("pending_instants", "Instants that are neither completed nor gone.", _count_pending()),
        ("conflicts_last_day", "Writes that lost a conflict in 24 hours.", _count_conflicts(now)),
        ("active_writers", "Writers whose heartbeat is alive.", _count_writers(now)),
    ):
        family = _create_family(f"sluice_table_{name}", about)
        for pk, labels in labelled.items():
            family.add_metric(labels, counts.get(pk, 0))
        yield family
    yield _build_health_metric(labelled)
    yield _build_alert_metric(now)


def build_mirror_metrics(labelled: dict[int, Labels]) -> Iterable[Metric]:
    """Figures of the mirror, of all tables together, labelled or not. One query."""
    sums = Table.objects.aggregate(
        tables=Count("pk"),
        failing=Count("pk", filter=~Q(sync_error="")),
        never=Count("pk", filter=Q(synced_at__isnull=True)),
        oldest=Min("synced_at"),
        tried=Max("sync_mark__tried_at"),
        newest=Max("synced_at"),
    )
    yield GaugeMetricFamily("sluice_tables", "Registered tables.", value=sums["tables"])
    yield GaugeMetricFamily(
        "sluice_tables_without_labels",
        "Tables beyond SLUICE_METRICS_TABLES_MAX, which have no figures of their own here.",
        value=sums["tables"] - len(labelled),
    )
    yield GaugeMetricFamily(
        "sluice_mirror_refused_tables",
        "Tables whose storage refused the mirror when it last read them.",
        value=sums["failing"],
    )
    yield GaugeMetricFamily(
        "sluice_mirror_unseen_tables", "Tables that were never read.", value=sums["never"]
    )
    oldest = GaugeMetricFamily(
        "sluice_mirror_oldest_look_timestamp_seconds",
        "When the mirror last looked at the table that waits longest: its lag.",
    )
    if sums["oldest"] is not None:
        oldest.add_metric((), sums["oldest"].timestamp())
    newest = GaugeMetricFamily(
        "sluice_mirror_newest_look_timestamp_seconds", "When the mirror last looked at any table."
    )
    moments = [moment for moment in (sums["newest"], sums["tried"]) if moment is not None]
    if moments:
        newest.add_metric((), max(moments).timestamp())
    yield from (oldest, newest)


def _create_family(name: str, about: str, *more: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, labels=[*BY_TABLE, *more])


def _timestamp(instant: InstantTime) -> float:
    return parse_instant(instant) / 1000


def _last_commit() -> Subquery:
    """Reads one index entry per table."""
    newest = InstantRecord.objects.filter(
        table=OuterRef("pk"), action__in=DATA_ACTIONS, state="completed"
    )
    return Subquery(newest.order_by("-completed_at").values("completed_at")[:1])


def _count_pending() -> dict[int, int]:
    return _count_by_table(OPEN_INSTANTS, "instants")


def _count_conflicts(now: datetime) -> dict[int, int]:
    return _count_by_table(Q(conflicts__decided_at__gte=now - CONFLICTS_WITHIN), "conflicts")


def _count_by_table(condition: Q, relation: str) -> dict[int, int]:
    """Asked from the tables' side: each of them reads its part of an index."""
    tables = Table.objects.filter(condition).order_by().values("pk").annotate(n=Count(relation))
    return dict(tables.values_list("pk", "n"))


def _count_writers(now: datetime) -> Counter[int]:
    return Counter(
        beat.table_id
        for beat in HeartbeatRecord.objects.filter(is_gone=False)
        if beat.liveness(age_s=(now - beat.beat_at).total_seconds()) in _ALIVE
    )


def _build_health_metric(labelled: dict[int, Labels]) -> Metric:
    """Zero is said as well, so that an alert sees a check recover; a table that nobody judged yet
    has no sample.
    """
    about = "Health checks that warn or are bad, as its page has them."
    family = _create_family("sluice_table_unwell_checks", about, "verdict")
    for pk, verdicts in TableHealth.objects.values_list("table", "verdicts"):
        if pk in labelled:
            counts = Counter(verdicts.values())
            for verdict in ("warn", "bad"):
                family.add_metric((*labelled[pk], verdict), counts[verdict])
    return family


def _build_alert_metric(now: datetime) -> Metric:
    """Of all tables, labelled or not."""
    of_alert = match_silences(
        table=OuterRef("table"),
        namespace=OuterRef("table__namespace"),
        check=OuterRef("check_name"),
    )
    silences = Silence.objects.filter(of_alert, until__gt=now)
    firing = Alert.objects.filter(fired_at__isnull=False, resolved_at__isnull=True)
    counted = firing.filter(~Exists(silences)).order_by().values("verdict").annotate(n=Count("pk"))
    counts = dict(counted.values_list("verdict", "n"))
    about = "Alerts that fire and that nobody silenced."
    family = GaugeMetricFamily("sluice_alerts_firing", about, labels=["verdict"])
    for verdict in ("warn", "bad"):
        family.add_metric((verdict,), counts.get(verdict, 0))
    return family
