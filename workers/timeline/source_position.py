"""The position in the source that a commit reached, from its metadata."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from workers.json_text import read_json

POSITION_KEY: Final = "sluice.source.position"
"""A key in commit metadata, so that a restart continues at the next position."""


@dataclass(frozen=True, slots=True)
class Position:
    """The last batch of a run of the source that the commit contains in full."""

    run: int
    round: int
    """From 0."""

    def encode(self) -> str:
        """Encode as JSON, for commit metadata under `POSITION_KEY`."""
        return json.dumps({"run": self.run, "round": self.round})

    @classmethod
    def decode(cls, text: str) -> Position | None:
        """Decode the position in such a text, or None for a foreign one."""
        try:
            body = read_json(text)
            return cls(int(body["run"]), int(body["round"]))
        except (ValueError, TypeError, KeyError):
            return None
