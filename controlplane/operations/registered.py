"""That a table is still registered, and where, for the rest of a transaction."""

from __future__ import annotations

from controlplane.errors import NotAllowedNow
from controlplane.tables.models import Table


def hold_registered(table: Table) -> None:
    """Nobody unregisters, renames or relocates the table before the transaction at hand ends.

    Raises NotAllowedNow for a table that was unregistered or relocated since it was read.
    """
    rows = Table.objects.select_for_update(no_key=True).filter(pk=table.pk)
    location = rows.values_list("location", flat=True).first()
    if location is None:
        raise NotAllowedNow("the table was unregistered in the meantime", table=table.slug)
    if location != table.location:
        raise NotAllowedNow("the table was relocated in the meantime: try again", table=table.slug)
