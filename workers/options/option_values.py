"""Texts of options as numbers, booleans and choices; an invalid text is rejected by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from workers.errors import InvalidInput

Choice = TypeVar("Choice", bound=StrEnum)
_DURATION = re.compile(r"([0-9]{1,6})([mhd])")
_MINUTES = {"m": 1, "h": 60, "d": 24 * 60}


def integer(values: Mapping[str, str], key: str, *, least: int, most: int) -> int:
    """Return the whole number under `key`, between `least` and `most`, both included.

    Raises InvalidInput, with the range, for a missing key and for anything else.
    """
    try:
        value = int(values[key])
    except (KeyError, ValueError) as error:
        raise InvalidInput("not a whole number", key=key, value=values.get(key)) from error
    if not least <= value <= most:
        raise InvalidInput("number out of range", key=key, value=value, least=least, most=most)
    return value


def boolean(values: Mapping[str, str], key: str) -> bool:
    """Return the value of `true` or `false`, ignoring case.

    Raises InvalidInput for anything else, KeyError for a missing key.
    """
    text = str(values[key]).lower()
    if text not in ("true", "false"):
        raise InvalidInput("neither true nor false", key=key, value=values[key])
    return text == "true"


def choice(values: Mapping[str, str], key: str, kind: type[Choice]) -> Choice:
    """Return the member whose value is the text under `key`, ignoring case.

    Raises InvalidInput, with the allowed values, for a missing key and for anything else.
    """
    text = str(values.get(key, ""))
    for member in kind:
        if member.value.lower() == text.lower():
            return member
    allowed = [member.value for member in kind]
    raise InvalidInput("value is not one of those allowed", key=key, value=text, allowed=allowed)


def parse_list(text: str | None) -> tuple[str, ...]:
    """Split at commas and strip blanks; empty parts are dropped, and None has no parts."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def duration_minutes(text: str, key: str, *, least: int = 0) -> int:
    """Return the minutes of a duration of whole minutes, hours or days. Raises InvalidInput for
    another text, and for less than `least` minutes.
    """
    match = _DURATION.fullmatch(text)
    if match is None or int(match[1]) * _MINUTES[match[2]] < least:
        at_least = f", and is at least {least}m" if least else ""
        raise InvalidInput(f"a retention is written 30m, 12h or 7d{at_least}", key=key, given=text)
    return int(match[1]) * _MINUTES[match[2]]
