"""Reads tables that somebody made to kill whoever reads them, one after the other in one process:
`python -m tests.support.bomb_reader`, a line of JSON for each, which it answers with one.

Its memory is bound as that of a node's processes is.
"""

from __future__ import annotations

import json
import resource
import sys
from functools import partial
from pathlib import Path

from bench.support.peak_memory import peak_mib
from tests.support.counted_calls import TooManyCalls, count_calls
from workers.errors import LakehouseError
from workers.lakehouse import open_table
from workers.recovery.plan import find_files

MEMORY_BYTES_MAX = 1_500 << 20
CALLS_MAX = 5_000_000
"""One call for each byte of the largest file that is parsed in Python makes three million."""
TOO_MANY_CALLS = "too many calls"


def read(location: str) -> str:
    """What a page, a writer and a reader ask of a table; the name of what it ended with."""
    try:
        table = open_table(location)
        table.timeline(archived=True)
        table.schema()
        for instant in table.timeline():
            find_files(table.table, instant.requested_at)
        return f"{table.read().num_rows} rows"
    except LakehouseError as error:
        return type(error).__name__
    except (MemoryError, RecursionError) as error:
        return type(error).__name__


def main() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    for line in sys.stdin:
        location = str(Path(json.loads(line)))
        try:
            ended, _ = count_calls(partial(read, location), calls_max=CALLS_MAX)
        except TooManyCalls:
            ended = TOO_MANY_CALLS
        answer = {"ended": ended, "peak_mb": int(peak_mib())}
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
