"""Values of parameters that services share: lists of names, and the instant of a pending plan."""

from __future__ import annotations

import re
from collections.abc import Mapping

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.options.service_keys import INSTANT

_INSTANT = re.compile(r"[0-9]{17}")


def parse_list(text: str) -> tuple[str, ...]:
    """Parse `a, b` as two names; each once, in order."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def parse_instant(values: Mapping[str, str]) -> InstantTime | None:
    """Return the instant that the parameters name, or None. Raises InvalidInput for a value that is
    not an instant.
    """
    text = values[INSTANT]
    if text and not _INSTANT.fullmatch(text):
        raise InvalidInput("instant time has not 17 digits", instant=text)
    return text or None
