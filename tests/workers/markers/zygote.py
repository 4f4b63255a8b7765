"""Marker servers that start in a moment: forks of one process that has imported the server.

    python -m tests.workers.markers.zygote

For tests that kill hundreds. A line on standard input is a JSON list of the server's arguments, or
the pid of a dead one to be reaped; the answer is a line with the pid. Each server is a process of
its own in every other respect.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from workers.markers import server


def main(log: str) -> None:
    for line in sys.stdin:
        order = json.loads(line)
        if isinstance(order, int):
            os.waitpid(order, 0)
            answer = order
        else:
            answer = os.fork()
            if answer == 0:
                _become_server(order, log)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _become_server(arguments: list[str], log: str) -> None:
    os.setsid()
    with Path(log).open("ab") as errors:
        os.dup2(errors.fileno(), 1)
        os.dup2(errors.fileno(), 2)
    os.close(0)
    try:
        server.main(arguments)
    finally:
        os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
