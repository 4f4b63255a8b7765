"""The health check of changes by other engines."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from controlplane.mirror.health_check import Check
from controlplane.mirror.health_words import many, spoken
from controlplane.tables.models import Table

PROPERTIES_NEW_S: Final = 24 * 3600


def beside_check(table: Table, now: datetime) -> list[Check]:
    """Return the check, or none if no other engine changed the table."""
    title = "No other engine changed the table"
    if table.overtaken and table.write_refusal:
        last = table.overtaken[-1]
        sentence = f"{many(len(table.overtaken), 'instant')} met a change of another engine"
        return [
            Check(
                name="beside",
                title=title,
                verdict="bad",
                sentence=f"{sentence}; the other engine may ignore their files",
                advice=last["change"],
                instant=last["instant"],
            )
        ]
    if not table.property_changes:
        return []
    last = table.property_changes[-1]
    age_s = now.timestamp() - last["at_ms"] / 1000
    is_new = age_s < PROPERTIES_NEW_S
    return [
        Check(
            name="beside",
            title=title,
            verdict="warn" if is_new else "quiet",
            sentence=f"{last['key']} was changed {spoken(age_s)} ago",
            advice="See the table's properties above. Open handles are rejected if the change "
            "affects them."
            if is_new
            else "",
        )
    ]
