"""Times of the phases of a commit, from its writer, in the commit's extra metadata.

Files of the timeline show when an instant was requested, inflight and completed. Only its writer
knows when it was validated and decided. The times are by the writer's clock, like those of the
instant. Apache Hudi preserves extra metadata and reads none of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from workers.json_text import read_json

PHASES_KEY: Final = "sluice.phases"
"""JSON object: epoch ms by name of the phase."""
INFLIGHT: Final = "inflight"
VALIDATED: Final = "validated"
"""No conflict was seen, under the lock."""
DECIDED: Final = "decided"
"""The last moment before its content goes to storage, to be decided there."""
WRITERS: Final = (INFLIGHT, VALIDATED, DECIDED)
_MS_MAX: Final = 253_402_300_800_000
"""The end of the year 9999."""


def encode_phases(at_ms: Mapping[str, int]) -> str:
    """Encode the text under `PHASES_KEY`, of epoch ms by phase."""
    return json.dumps(dict(at_ms))


def read_phases(text: str | None) -> dict[str, int]:
    """Return epoch ms by phase; only of the phases in `WRITERS`, and of times that a calendar has.
    Empty for a text that is not such an object: nothing depends on it.
    """
    try:
        phases = read_json(text or "")
    except ValueError:
        return {}
    if not isinstance(phases, dict):
        return {}
    return {name: phases[name] for name in WRITERS if _is_time(phases.get(name))}


def _is_time(at_ms: object) -> bool:
    return type(at_ms) is int and 0 < at_ms < _MS_MAX
