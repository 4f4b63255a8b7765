"""Reads a table in batches, and says how long it took, when the first came and what it held."""

from __future__ import annotations

import json
import sys
import time

from bench.support.peak_memory import peak_mib
from workers import open_table


def main(location: str) -> None:
    """Prints one JSON object."""
    begun = time.perf_counter()
    first = 0.0
    rows = 0
    for batch in open_table(location).scan().to_batches():
        first = first or time.perf_counter() - begun
        rows += batch.num_rows
    seconds = time.perf_counter() - begun
    said = {"rows": rows, "seconds": seconds, "first_seconds": first, "peak_mb": peak_mib()}
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
