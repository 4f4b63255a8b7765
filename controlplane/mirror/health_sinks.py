"""The health check of a table's sinks: do they report?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Count, Exists, OuterRef, Subquery

from controlplane.mirror.health_check import Check
from controlplane.mirror.health_words import many, spoken
from controlplane.mirror.models import SinkRecord
from controlplane.mirror.queries.sinks import silent_sinks

_TITLE = "Sinks report"


def sink_columns(now: datetime) -> Mapping[str, Exists | Subquery]:
    """Return columns to annotate on a query with a `table`, which save a query."""
    silent = silent_sinks(now).filter(table=OuterRef("table"))
    counted = silent.order_by().values("table").annotate(n=Count("pk"))
    return {
        "has_sinks": Exists(SinkRecord.objects.filter(table=OuterRef("table"))),
        "silent": Subquery(counted.values("n")),
        "silent_id": Subquery(silent.values("sink_id")[:1]),
        "silent_since": Subquery(silent.values("updated_at")[:1]),
    }


def sinks_check(columns: Mapping[str, Any], now: datetime) -> list[Check]:
    """Return the check; none for a table without sinks."""
    if not columns["silent"]:
        good = Check(name="sinks", title=_TITLE, verdict="good", sentence="all sinks report")
        return [good] if columns["has_sinks"] else []
    age = spoken((now - columns["silent_since"]).total_seconds())
    others = f"; {many(columns['silent'] - 1, 'other')} too" if columns["silent"] > 1 else ""
    return [
        Check(
            name="sinks",
            title=_TITLE,
            verdict="bad",
            sentence=f"last update of {columns['silent_id']} {age} ago{others}",
            advice="A coordinator reports every 2 s; its process may have died. The sink's page "
            "shows who ran it. A relaunch continues from the table's offsets.",
        )
    ]
