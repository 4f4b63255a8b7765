"""Loads one CSV into a new table within a limit of memory, in a process of its own: `python -m
bench.drivers.load FILE TABLE MEMORY_MB`. Prints seconds and the peak of its memory as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from workers.concurrency.outcome import Committed
from workers.lakehouse import create_table
from workers.loading.options import load_options
from workers.loading.reader import open_rows

BUCKETS = "64"


def main(file: str, location: str, memory_mb: str) -> None:
    """Load the file and print what it took."""
    began = time.perf_counter()
    rows = open_rows([Path(file)], load_options({}))
    typed_s = time.perf_counter() - began
    table = create_table(
        location,
        name="weather",
        schema=rows.schema,
        record_key=["id"],
        partition_by=["origin"],
        options={"hoodie.bucket.index.num.buckets": BUCKETS},
    )
    options = {"hoodie.write.markers.type": "direct", "sluice.write.memory": memory_mb}
    outcome = table.write(rows, operation="bulk_insert", options=options)
    assert isinstance(outcome, Committed), outcome
    answer = {
        "seconds": time.perf_counter() - began,
        "types_s": typed_s,
        "cpu_s": time.process_time(),
        "rows": outcome.rows,
        "peak_mb": _peak_kib() / 1024,
    }
    sys.stdout.write(json.dumps(answer))


def _peak_kib() -> int:
    """Return the peak of this program. `ru_maxrss` has that of its parent, if that is larger."""
    status = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in status if line.startswith("VmHWM:"))
    return int(peak)


if __name__ == "__main__":
    main(*sys.argv[1:])
