"""The port that the write path calls for markers, and the settings that travel to executors.

Contract: when `create` or `create_all` returns, the markers are durable and the instant was
undecided afterwards, so a later rollback sees them. The data file may be opened then, never before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from workers.markers.marker import Marker
from workers.options.early_detection import EarlyDetection
from workers.options.write_keys import MarkerKind

CreateResult = Literal["created", "exists"]


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
