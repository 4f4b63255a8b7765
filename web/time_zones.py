"""In which time zone a page writes its times: each person's choice. Times are kept, compared and
sent in UTC; only what a person reads is written otherwise, and says so.

The choice is read from the database at sign-in, and lies in the session from then on: no page asks
for it. The zone of a browser comes with its cookie.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.contrib.auth.models import User
from django.http import HttpRequest

from controlplane.preferences.choices import BROWSER, choices_of

COOKIE: Final = "sluice_zone"
CHOICE: Final = "time_zone"
"""In the session."""
UTC_ZONE: Final = ZoneInfo("UTC")
_ZONE_CHARS_MAX: Final = 64
_shown: ContextVar[ZoneInfo] = ContextVar("shown_zone", default=UTC_ZONE)


def remember_choice(request: HttpRequest, choice: str) -> None:
    """For the rest of this session."""
    request.session[CHOICE] = choice


def choice_at_sign_in(*, request: HttpRequest, user: User, **_: Any) -> None:
    """A receiver of Django's `user_logged_in`."""
    remember_choice(request, choices_of(user).time_zone)


def shown_zone() -> ZoneInfo:
    """The zone of the page at hand."""
    return _shown.get()


def local(at: datetime) -> datetime:
    """As the page at hand writes it."""
    return at.astimezone(_shown.get())


def zone_words(at: datetime) -> str:
    """How a reader knows the zone of a time: `UTC`, `CET`, `+0530`."""
    name = local(at).tzname() or ""
    return f"UTC{name}" if name[:1] in "+-" else name


@contextmanager
def times_for(request: HttpRequest) -> Iterator[None]:
    """What is rendered within is written in the zone of whoever asks."""
    token = _shown.set(_zone_of(request))
    try:
        yield
    finally:
        _shown.reset(token)


def _zone_of(request: HttpRequest) -> ZoneInfo:
    choice = str(request.session.get(CHOICE, ""))
    name = request.COOKIES.get(COOKIE, "") if choice == BROWSER else choice
    return _known(name[:_ZONE_CHARS_MAX]) if name else UTC_ZONE


@lru_cache(maxsize=256)
def _known(name: str) -> ZoneInfo:
    """UTC for what is no zone: a cookie may hold anything."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC_ZONE
