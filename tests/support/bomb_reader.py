"""Reads tables that somebody made to kill whoever reads them, one after the other in one process:
`python -m tests.support.bomb_reader`, a line of JSON for each, which it answers with one.

Its memory is bound as that of a node's processes is.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from bench.support.peak_memory import peak_mib
from workers.errors import LakehouseError
from workers.lakehouse import open_table
from workers.recovery.plan import files_of

MEMORY_BYTES_MAX = 1_500 << 20


def read(location: str) -> str:
    """What a page, a writer and a reader ask of a table; the name of what it ended with."""
    try:
        table = open_table(location)
        table.timeline(archived=True)
        table.schema()
        for instant in table.timeline():
            files_of(table.table, instant.requested_at)
        return f"{table.read().num_rows} rows"
    except LakehouseError as error:
        return type(error).__name__
    except (MemoryError, RecursionError) as error:
        return type(error).__name__


def main() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    for line in sys.stdin:
        began_s = time.monotonic()
        ended = read(str(Path(json.loads(line))))
        took_s = time.monotonic() - began_s
        answer = {"ended": ended, "took_s": took_s, "peak_mb": int(peak_mib())}
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
