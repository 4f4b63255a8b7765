"""What a write job reads: generated demo streams, and files.

A source answers with rounds; the runner writes each as one commit.
"""

from __future__ import annotations

from workers.spark.sources.opening import open_source
from workers.spark.sources.source import Position, Round, Source

__all__ = ["Position", "Round", "Source", "open_source"]
