"""A service's parameters: text by key, each with a default, unknown keys refused by name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from workers.clock import InstantTime
from workers.errors import InvalidInput

SCHEDULE_ONLY = "schedule_only"
INSTANT = "instant"
_INSTANT = re.compile(r"[0-9]{17}")


def with_defaults(
    given: Mapping[str, str], known: Mapping[str, str], *, service: str
) -> dict[str, str]:
    """Raises InvalidInput naming the nearest known key."""
    for key, value in given.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = {"did_you_mean": near[0]} if near else {"known": sorted(known)}
            raise InvalidInput(f"unknown parameter of {service}", key=key, **hint)
        if not isinstance(value, str):
            raise InvalidInput("a parameter is text", key=key, value=value)
    return {**known, **given}


def listed(text: str) -> tuple[str, ...]:
    """`a, b` as two names; each once, in order."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def instant_or_none(values: Mapping[str, str]) -> InstantTime | None:
    """Raises InvalidInput."""
    text = values[INSTANT]
    if text and not _INSTANT.fullmatch(text):
        raise InvalidInput("instant time has not 17 digits", instant=text)
    return text or None
