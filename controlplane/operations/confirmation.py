"""What a person says to confirm a request: the table's name and a reason."""

from __future__ import annotations

from enum import Enum

from controlplane.errors import InvalidRequest
from controlplane.tables.models import Table

REASON_CHARS_MAX = 500


class Confirmation(Enum):
    """What has to be said; more may be."""

    NONE = "none"
    REASON = "reason"
    NAME_AND_REASON = "name and reason"


def check_words(
    table: Table,
    reason: str,
    typed_name: str,
    needed: Confirmation = Confirmation.NAME_AND_REASON,
) -> None:
    """Refuse, as InvalidRequest, a name that is not the table's, and no reason or a long one."""
    is_name_needed = needed is Confirmation.NAME_AND_REASON
    if (is_name_needed or typed_name) and typed_name.strip() not in (table.slug, table.name):
        raise InvalidRequest("the typed name is not the name of this table", expected=table.slug)
    if needed is not Confirmation.NONE and not reason.strip():
        raise InvalidRequest("a reason is required")
    if len(reason) > REASON_CHARS_MAX:
        raise InvalidRequest("the reason is too long", most=REASON_CHARS_MAX)
