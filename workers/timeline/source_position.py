"""How far a commit took the source that it was written from, as its metadata says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from workers.json_text import read_json

POSITION_KEY: Final = "sluice.source.position"
"""In commit metadata, so that a restart goes on with what comes next."""


@dataclass(frozen=True, slots=True)
class Position:
    """The last round of a run of the source that the commit holds in full."""

    run: int
    round: int
    """From 0."""

    def encode(self) -> str:
        """As JSON, for commit metadata under `POSITION_KEY`."""
        return json.dumps({"run": self.run, "round": self.round})

    @classmethod
    def decode(cls, text: str) -> Position | None:
        """The position in such a text; None for what we did not write."""
        try:
            body = read_json(text)
            return cls(int(body["run"]), int(body["round"]))
        except (ValueError, TypeError, KeyError):
            return None
