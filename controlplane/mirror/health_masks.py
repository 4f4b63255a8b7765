"""The health check of masks: one is of a name, so a column that is renamed loses its mask."""

from __future__ import annotations

from django.db.models import Exists, OuterRef

from controlplane.mirror.health_check import Check
from controlplane.mirror.health_words import many
from controlplane.mirror.masking import masked_columns
from controlplane.tables.models import MaskedColumn, Table

_NAMED_MAX = 3


def mask_columns() -> dict[str, Exists]:
    """What the check needs, beside a row that has the table: it costs no query of its own."""
    return {"has_masks": Exists(MaskedColumn.objects.filter(table=OuterRef("table")))}


def mask_check(table: Table) -> list[Check]:
    """For a table that has masked columns. Two queries."""
    title = "Masks match columns"
    masked = masked_columns(table)
    if not masked.unknown:
        good = f"{many(len(masked.columns), 'column')} masked"
        return [Check(name="masks", title=title, verdict="good", sentence=good)]
    names = ", ".join(path[:60] for path in masked.unknown[:_NAMED_MAX])
    rest = len(masked.unknown) - _NAMED_MAX
    return [
        Check(
            name="masks",
            title=title,
            verdict="bad",
            sentence=f"{names}{f' and {rest} more' if rest > 0 else ''}: masked, and no column of "
            "the newest schema",
            advice="A column that was renamed is shown to everybody who reads rows: mask it under "
            "its new name in the table's settings. If it was dropped, take its mask away.",
        )
    ]
