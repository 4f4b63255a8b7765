"""The health check of masks. A mask applies to a name, so a renamed column loses its mask."""

from __future__ import annotations

from django.db.models import Exists, OuterRef

from controlplane.mirror.health_check import Check
from controlplane.mirror.health_words import many
from controlplane.mirror.masking import masked_columns
from controlplane.tables.models import MaskedColumn, Table

_NAMED_MAX = 3


def mask_columns() -> dict[str, Exists]:
    """Return columns to annotate on a query with a `table`, which save a query."""
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
            sentence=f"{names}{f' and {rest} more' if rest > 0 else ''}: masked, but not in the "
            "newest schema",
            advice="A renamed column is visible to all users with row access. Mask its new name in "
            "the table's settings. If it was dropped, remove its mask.",
        )
    ]
