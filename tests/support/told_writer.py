"""A process that commits one row after the other and tells each that it was told is committed.

    python -m tests.support.told_writer '{"location": …, "name": …, "first": …, "options": {…}}'

One line per commit: the key. It ends when it is killed, or with the process that started it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from itertools import count
from typing import Any

import pyarrow as pa

from workers.concurrency.outcome import Committed
from workers.errors import LockTimeout
from workers.lakehouse import open_table


def main(order: Mapping[str, Any]) -> None:
    table = open_table(order["location"])
    options = {"sluice.writer.name": order["name"], **order["options"]}
    started_by = os.getppid()
    for number in count(order["first"]):
        if os.getppid() != started_by:
            return
        key = f"{order['name']}-{number}"
        row = {"id": key, "ts": number, "city": key, "day": "d"}
        try:
            outcome = table.write(pa.Table.from_pylist([row]), options=options)
        except LockTimeout:  # Whoever held it was killed; its lease is about to end.
            continue
        if isinstance(outcome, Committed):
            sys.stdout.write(f"{key}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
