"""The process that computes one statement for a page: `python -m controlplane.sql.child`.

It is bounded as `workers.bounded_process` says. Masked columns come into the database as the mark:
what they hold is not in there.

It knows neither Django nor the register, and its environment holds no secret but those that open
the tables' storage.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from controlplane.tables.masks import masked_rows
from workers.bounded_process import cut_rows, say, take_limits
from workers.sql.child import StatementDatabase

_BATCH_ROWS: Final = 1_000


def _masked(rows: pa.Table, table: Mapping[str, Any]) -> pa.Table:
    return masked_rows(rows, frozenset(table["masked"]))


def _answer(job: Mapping[str, Any], database: StatementDatabase) -> None:
    reader = database.reader(_BATCH_ROWS)
    answer = cut_rows(reader, rows_max=job["rows_max"], bytes_max=job["answer_bytes"])
    say({"cut_by": answer.cut_by}, answer.rows)


def main() -> None:
    """Compute the job and say what came of it; never an exit code but 0 of its own."""
    job = json.load(sys.stdin)
    take_limits(job)
    database = StatementDatabase(job, _masked)
    database.run(lambda: _answer(job, database))
    os._exit(0)  # What the database still computes ends with it.


if __name__ == "__main__":
    main()
