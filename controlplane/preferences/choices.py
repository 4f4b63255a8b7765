"""What one person chose for the pages, read and changed. Each change holds that person's row, so
that two pages at once lose nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from django.contrib.auth.models import User
from django.db import transaction

from controlplane.errors import InvalidRequest
from controlplane.preferences.models import Preference

BROWSER: Final = "browser"
VIEWS_MAX: Final = 30
PINS_MAX: Final = 50
NAME_CHARS_MAX: Final = 60
QUERY_CHARS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedView:
    name: str
    query: str
    """Of the address of the list of tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    time_zone: str = ""
    """Empty is UTC; `browser` is the reader's own; else a zone's name."""
    columns: tuple[str, ...] | None = None
    """Keeps the columns of the list of tables; None for those that it has by itself."""
    views: tuple[SavedView, ...] = ()
    pins: frozenset[int] = frozenset()
    """Keys of tables."""


def choices_of(user: User) -> Choices:
    """One query."""
    row = Preference.objects.filter(pk=user.pk).first()
    if row is None:
        return Choices()
    return Choices(
        time_zone=row.time_zone,
        columns=None if row.columns is None else tuple(row.columns),
        views=tuple(SavedView(name=name, query=query) for name, query in row.views),
        pins=frozenset(row.pins),
    )


def zone_names() -> list[str]:
    """Those that a person may choose by name."""
    return sorted(name for name in available_timezones() if "/" in name and name[0].isupper())


def do_choose_time_zone(user: User, name: str) -> None:
    """Keeps the zone of this person. Raises InvalidRequest for one that there is not."""
    if name not in ("", BROWSER) and name not in available_timezones():
        raise InvalidRequest("unknown time zone", time_zone=name[:64])
    with transaction.atomic():
        row = _held(user)
        row.time_zone = name
        row.save(update_fields=["time_zone"])


def zone_of(choice: str) -> ZoneInfo:
    """In which the server writes a time; a browser that may choose writes it anew."""
    return ZoneInfo("UTC" if choice in ("", BROWSER) else choice)


def do_choose_columns(user: User, columns: Sequence[str] | None) -> None:
    """Keeps the columns of the list of tables; None for those that it has by itself."""
    with transaction.atomic():
        row = _held(user)
        row.columns = None if columns is None else list(columns)
        row.save(update_fields=["columns"])


def do_save_view(user: User, name: str, query: str) -> None:
    """Under a name of which there is a view already, it takes that one's place.

    Raises InvalidRequest for no name, and where there are `VIEWS_MAX`.
    """
    name = " ".join(name.split())
    if not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise InvalidRequest(f"the name of a view must have 1 to {NAME_CHARS_MAX} characters")
    if len(query) > QUERY_CHARS_MAX:
        raise InvalidRequest("the address of this view is too long")
    with transaction.atomic():
        row = _held(user)
        others = [[known, kept] for known, kept in row.views if known != name]
        if len(others) >= VIEWS_MAX:
            raise InvalidRequest(f"you already have {VIEWS_MAX} views: delete a view first")
        row.views = sorted([*others, [name, query]])
        row.save(update_fields=["views"])


def do_delete_view(user: User, name: str) -> None:
    """Nothing, where there is none of this name."""
    with transaction.atomic():
        row = _held(user)
        row.views = [[known, query] for known, query in row.views if known != name]
        row.save(update_fields=["views"])


def do_pin(user: User, table_key: int, *, is_pinned: bool) -> None:
    """Pins a table, or takes the pin away. Raises InvalidRequest where `PINS_MAX` are pinned."""
    with transaction.atomic():
        row = _held(user)
        pins = [key for key in row.pins if key != table_key]
        if is_pinned:
            if len(pins) >= PINS_MAX:
                raise InvalidRequest(
                    f"you already have {PINS_MAX} pinned tables: unpin a table first"
                )
            pins.append(table_key)
        row.pins = pins
        row.save(update_fields=["pins"])


def _held(user: User) -> Preference:
    Preference.objects.get_or_create(pk=user.pk)
    return Preference.objects.select_for_update().get(pk=user.pk)
