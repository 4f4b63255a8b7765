"""The port that the write path calls for markers, and the settings that travel to executors and in
marker requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from workers.errors import InvalidInput
from workers.markers.marker import Marker
from workers.options.early_detection import EarlyDetection, EarlyStrategy
from workers.options.write_keys import MarkerKind

CreateResult = Literal["created", "exists"]
EARLY_PARAMETER = "earlyconflict"
_TEXT = re.compile(r"([0-9]{1,7}),([0-9]{1,7}),(true|false)\Z")
_PERIOD_LEAST_MS = 50


class MarkerWriter(Protocol):
    """Registers the data files of one instant."""

    def create(self, marker: Marker) -> CreateResult:
        """Make `marker` durable.

        Raises InstantRolledBack when the instant is decided, MarkerRefused when the marker is not
        surely durable, EarlyConflict when a rival was found that wins.
        """

    def create_all(self, markers: Iterable[Marker]) -> None:
        """Make all of them durable, at the price of one where that can be. Raises as `create`."""

    def confirm(self) -> None:
        """Check before each data file. Raises EarlyConflict if a competing writer wins."""


@dataclass(frozen=True, slots=True)
class MarkerSettings:
    """How an instant's markers are written: small, picklable, a token for this instant only."""

    kind: MarkerKind | Literal["direct", "timeline_server_based"] = MarkerKind.TIMELINE_SERVER_BASED
    url: str | None = None
    token: str | None = None
    early: EarlyDetection | None = None

    def __repr__(self) -> str:
        token = None if self.token is None else "***"
        return (
            f"MarkerSettings(kind={self.kind!r}, url={self.url!r}, token={token!r}, "
            f"early={self.early!r})"
        )


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
