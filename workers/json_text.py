"""JSON that others wrote. What is nested too deeply to be read is no JSON, as anything else that is
broken (threat T20): the parser's own error is none that readers of broken text expect.
"""

from __future__ import annotations

import json
from typing import Any


def read_json(text: str | bytes) -> Any:
    """What the text says; ValueError for all that is no JSON, or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
