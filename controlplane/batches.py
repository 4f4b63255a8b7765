"""Delete old rows in many short transactions: one long one would hold up every other writer."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import QuerySet

BATCH_ROWS: Final = 500


def delete_in_batches(rows: QuerySet[Any], *, batch_rows: int = BATCH_ROWS) -> int:
    """Delete these rows and what belongs to them; return how many. Each batch is a transaction of
    its own, which checks the conditions of `rows` again: a row that came into use stays.
    """
    total = 0
    by_key = rows.order_by("pk")
    while keys := list(by_key.values_list("pk", flat=True)[:batch_rows]):
        deleted, _ = rows.filter(pk__in=keys).delete()
        total += deleted
        by_key = rows.filter(pk__gt=keys[-1]).order_by("pk")
    return total
