"""The parameter of a marker request for early detection, and its grammar."""

from __future__ import annotations

import re

from workers.errors import InvalidInput
from workers.options.early_detection import EarlyDetection, EarlyStrategy

EARLY_PARAMETER = "earlyconflict"
_TEXT = re.compile(r"([0-9]{1,7}),([0-9]{1,7}),(true|false)\Z")
_PERIOD_LEAST_MS = 50


def early_text(early: EarlyDetection) -> str:
    """Format initial delay and period in ms, and whether commits count: `0,30000,false`."""
    return f"{early.initial_delay_ms},{early.period_ms},{str(early.checks_commits).lower()}"


def early_from(text: str) -> EarlyDetection:
    """Parse the text of `early_text`. Raises InvalidInput for any other text."""
    match = _TEXT.match(text)
    if match is None or int(match[2]) < _PERIOD_LEAST_MS:
        raise InvalidInput(f"{EARLY_PARAMETER} is not <delay ms>,<period ms>,<true or false>")
    return EarlyDetection(
        EarlyStrategy.ASYNCHRONOUS, match[3] == "true", int(match[1]), int(match[2])
    )
