"""`manage.py table show`: rows of a table as they are stored, one JSON object a line.

For whoever has a shell on the node: he could read the files as well, so masks of columns and rights
to rows, which hold for people of the pages and the API, are not applied.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from typing import Any

from controlplane.mirror.storage import engine_table
from controlplane.tables.models import Table
from workers.lakehouse import LakehouseTable

ROWS = 20


def add_showing(parser: ArgumentParser) -> None:
    """The arguments of `show`."""
    parser.add_argument("slug", help="the slug of the table")
    parser.add_argument(
        "--columns", default="", help="comma-separated names (default: all columns)"
    )
    parser.add_argument("--where", help="a condition, such as \"city = 'Oslo' AND ts < 5\"")
    parser.add_argument(
        "--limit", type=int, default=ROWS, help=f"the maximum number of rows ({ROWS})"
    )
    parser.add_argument("--as-of", help="read the table as of this completion time")
    parser.add_argument("--since", help="only rows of commits after this completion time")
    parser.add_argument(
        "--until", help="with --since: only rows of commits up to this completion time"
    )
    parser.add_argument(
        "--explain", action="store_true", help="print what would be read, without rows"
    )


def show_rows(table: Table, options: Mapping[str, Any], say: Callable[[str], object]) -> None:
    """Say the rows, or what would be read. Raises InvalidInput, SnapshotExpired, SnapshotChanged,
    UnsupportedTable, MalformedTable.
    """
    names = [name.strip() for name in options["columns"].split(",") if name.strip()]
    scan = LakehouseTable(engine_table(table)).scan(
        names or None,
        where=options["where"],
        limit=options["limit"],
        as_of=options["as_of"],
        since=options["since"],
        until=options["until"],
    )
    if options["explain"]:
        say(scan.explain())
        return
    for batch in scan.to_batches():
        for row in batch.to_pylist():
            say(json.dumps(row, default=str, ensure_ascii=False))
