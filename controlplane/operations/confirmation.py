"""What a person says to confirm a plan: the table's name and a reason."""

from __future__ import annotations

from controlplane.errors import InvalidRequest
from controlplane.tables.models import Table

REASON_CHARS_MAX = 500


def check_words(table: Table, reason: str, typed_name: str, *, are_needed: bool = True) -> None:
    """Raises InvalidRequest for a name that is not the table's, and for no reason or a long one."""
    if (are_needed or typed_name) and typed_name.strip() not in (table.slug, table.name):
        raise InvalidRequest("the typed name is not the name of this table", expected=table.slug)
    if are_needed and not reason.strip():
        raise InvalidRequest("this needs a reason")
    if len(reason) > REASON_CHARS_MAX:
        raise InvalidRequest("the reason is too long", most=REASON_CHARS_MAX)
