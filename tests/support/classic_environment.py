"""The environment of a process that starts a Spark session of its own, without Spark Connect."""

from __future__ import annotations

import os
import sys


def classic_environment() -> dict[str, str]:
    """Ours without what a Connect session of another test left, which would ask for one there
    too.
    """
    inherited = {
        key: text for key, text in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))
    }
    return inherited | {"PYSPARK_PYTHON": sys.executable}
