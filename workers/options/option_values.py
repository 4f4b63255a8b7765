"""Texts of options as numbers, switches and choices; what cannot be one is refused by name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from workers.errors import InvalidInput

Choice = TypeVar("Choice", bound=StrEnum)
_DURATION = re.compile(r"([0-9]{1,6})([mhd])")
_MINUTES = {"m": 1, "h": 60, "d": 24 * 60}


def integer(values: Mapping[str, str], key: str, *, least: int, most: int) -> int:
    try:
        value = int(values[key])
    except (KeyError, ValueError) as error:
        raise InvalidInput("not a whole number", key=key, value=values.get(key)) from error
    if not least <= value <= most:
        raise InvalidInput("number out of range", key=key, value=value, least=least, most=most)
    return value


def boolean(values: Mapping[str, str], key: str) -> bool:
    text = str(values[key]).lower()
    if text not in ("true", "false"):
        raise InvalidInput("neither true nor false", key=key, value=values[key])
    return text == "true"


def choice(values: Mapping[str, str], key: str, kind: type[Choice]) -> Choice:
    text = str(values.get(key, ""))
    for member in kind:
        if member.value.lower() == text.lower():
            return member
    allowed = [one.value for one in kind]
    raise InvalidInput("value is not one of those allowed", key=key, value=text, allowed=allowed)


def known(given: Mapping[str, str], known: dict[str, str], *, what: str) -> dict[str, str]:
    for key, value in given.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = {"did_you_mean": near[0]} if near else {"known": sorted(known)}
            raise InvalidInput(f"unknown {what}", key=key, **hint)
        if not isinstance(value, str):
            raise InvalidInput(f"a {what} is text", key=key, value=value)
    return {**known, **given}


def listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def duration_minutes(text: str, key: str) -> int:
    """A duration of whole minutes, hours or days."""
    if (match := _DURATION.fullmatch(text)) is None:
        raise InvalidInput("a retention is written 30m, 12h or 7d", key=key, given=text)
    return int(match[1]) * _MINUTES[match[2]]
