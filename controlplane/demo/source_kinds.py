"""The kinds of sources that the demo's writes have; `workers.demo.inputs` opens them."""

from __future__ import annotations

from typing import Final

from controlplane.operations.source_kinds import SourceKind

STREAM: Final = "demo_stream"
BACKFILL: Final = "demo_backfill"
EVOLVE: Final = "demo_evolve"
LATE: Final = "demo_late"
SOURCE_KINDS: Final = (
    SourceKind(STREAM, has_numbered_rounds=True, restarts_max=3),
    SourceKind(BACKFILL),
    SourceKind(EVOLVE),
    SourceKind(LATE),
)
