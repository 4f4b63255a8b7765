"""What a write job reads: files, and what input modules add.

A source answers with rounds; the runner writes each as one commit.
"""

from __future__ import annotations

from workers.spark.inputs.opening import open_source
from workers.spark.inputs.source import Round, Source

__all__ = ["Round", "Source", "open_source"]
