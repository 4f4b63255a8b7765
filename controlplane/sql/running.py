"""One statement, or one read of rows, in a process with limits (`workers.bounded_process`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from controlplane.sql.errors import SqlCancelled, SqlFailed, SqlLimitHit
from controlplane.sql.limits import SqlLimits
from workers.bounded_process import (
    LimitHit,
    ProcessAnswer,
    WorkCancelled,
    WorkFailed,
    run_bounded,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableToRead:
    """What the process is told of one table."""

    relation: str
    location: str
    columns: tuple[str, ...]
    masked: tuple[str, ...]
    times_read: int
    as_of: str | None = None
    hint: str | None = None
    """What rows that matter to the statement must hold; others may be left unread."""


@dataclass(frozen=True, slots=True)
class Rows:
    """An answer, masked where it is."""

    rows: pa.Table
    cut_by: str
    """`rows`, `bytes`; empty for a whole answer."""


def run_statement(
    text: str,
    tables: Sequence[TableToRead],
    *,
    rows_max: int,
    limits: SqlLimits,
    is_cancelled: Callable[[], bool] | None = None,
) -> Rows:
    """Compute a statement that was checked, in DuckDB's spelling. Raises SqlLimitHit, which names
    the limit, SqlCancelled, and SqlFailed with the engine's error.
    """
    job = {
        "text": text,
        "tables": [asdict(table) for table in tables],
        "rows_max": rows_max,
    }
    answer = run_job(
        "controlplane.sql.child",
        job,
        locations=[table.location for table in tables],
        limits=limits,
        work="the statement",
        is_cancelled=is_cancelled,
    )
    if answer.head["cut_by"] == "bytes" and not answer.rows.num_rows:
        raise SqlLimitHit(
            "one row exceeds the size of a result: select fewer columns, or a part of the text",
            limit="answer_bytes",
            bytes=limits.answer_bytes,
        )
    return Rows(answer.rows, answer.head["cut_by"])


def run_job(
    module: str,
    job: Mapping[str, Any],
    *,
    locations: Sequence[str],
    limits: SqlLimits,
    work: str,
    is_cancelled: Callable[[], bool] | None = None,
) -> ProcessAnswer:
    """Run a module as a process and return its answer. `work` is what error messages call it.

    Raises SqlLimitHit, SqlCancelled, SqlFailed.
    """
    try:
        return run_bounded(
            module,
            job,
            limits=limits,
            work=work,
            environ=os.environ,
            locations=locations,
            is_cancelled=is_cancelled,
        )
    except WorkCancelled as error:
        raise SqlCancelled(error.message) from error
    except LimitHit as error:
        raise SqlLimitHit(error.message, **error.values) from error
    except WorkFailed as error:
        raise SqlFailed(error.message, **error.values) from error
