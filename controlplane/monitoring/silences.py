"""Silences of alerts: of one check or every check, on a table, in a namespace or everywhere. The
narrowest silence applies.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from django.db.models import Q

from controlplane.monitoring.models import Alert, Silence

Reach = Literal["table", "namespace", "everywhere"]
EVERY_CHECK = ""


def get_reach(silence: Silence) -> Reach:
    """Return the scope of a silence."""
    if silence.table_id is not None:
        return "table"
    return "namespace" if silence.namespace else "everywhere"


def match_silences(*, table: Any, namespace: Any, check: Any) -> Q:
    """Return the condition for silences of a check; each argument is a value or an `OuterRef`."""
    wide = Q(table__isnull=True) & (Q(namespace="") | Q(namespace=namespace))
    return (Q(table=table) | wide) & (Q(check_name=EVERY_CHECK) | Q(check_name=check))


class Silences:
    """The silences at one time, narrowest first."""

    def __init__(self, rows: Iterable[Silence]) -> None:
        narrow_first = sorted(rows, key=_width)
        self.wide = [silence for silence in narrow_first if silence.table_id is None]
        self._rows = narrow_first

    @classmethod
    def load(cls, now: datetime, among: Q | None = None) -> Silences:
        """Load the silences at this time that fulfil the condition. One query."""
        return cls(Silence.objects.filter(among or Q(), until__gt=now))

    def find(self, alert: Alert) -> Silence | None:
        """Return the narrowest silence of an alert, or None. Reads the table of the alert."""
        return self.find_for_check(alert.table_id, alert.table.namespace, alert.check_name)

    def find_for_check(self, table_key: int, namespace: str, check: str) -> Silence | None:
        """Return the narrowest silence of a check or event kind of a table, or None."""
        return next((row for row in self._rows if _is_over(row, table_key, namespace, check)), None)


def _is_over(silence: Silence, table_key: int, namespace: str, check: str) -> bool:
    if silence.check_name not in (EVERY_CHECK, check):
        return False
    if silence.table_id is not None:
        return silence.table_id == table_key
    return silence.namespace in ("", namespace)


def _width(silence: Silence) -> tuple[int, bool]:
    widths: dict[Reach, int] = {"table": 0, "namespace": 1, "everywhere": 2}
    return widths[get_reach(silence)], silence.check_name == EVERY_CHECK
