"""JSON of other writers. Too deeply nested text counts as invalid JSON, like any other broken text
(threat T20): readers of broken text do not expect the parser's own error.
"""

from __future__ import annotations

import json
from typing import Any


def read_json(text: str | bytes) -> Any:
    """Parse the text. Raises ValueError for invalid JSON, and for text that is nested too
    deeply.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
