"""Statements that a user ran, newest first, and the end of one that still runs. Only the user sees
them; the audit has them as well.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from django.conf import settings
from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest
from controlplane.sql.limits import STATEMENT_KEPT_CHARS
from controlplane.sql.models import StatementRun

KEPT_MAX: Final = 200
"""Statements of one user."""
_RUN_ID: Final = re.compile(r"[A-Za-z0-9-]{8,64}")
_STALE_S: Final = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRunRow:
    """A statement that the caller ran."""

    id: int
    statement: str
    """Its first 2,000 characters."""
    ran_at: datetime
    result: str
    """`done`, or the code of the error."""
    rows: int
    took_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledRun:
    """What a request to cancel found."""

    was_running: bool
    """False where no statement of the caller ran under this id."""


def statement_runs(user: User) -> list[StatementRunRow]:
    """Return the user's own statements, newest first; 200 at most."""
    return [
        StatementRunRow(
            id=run.pk,
            statement=run.statement,
            ran_at=run.ran_at,
            result=run.result,
            rows=run.rows,
            took_ms=run.took_ms,
        )
        for run in StatementRun.objects.filter(user=user).order_by("-pk")[:KEPT_MAX]
    ]


def do_note_run(statement: str, *, by: User, result: str, rows: int, took_ms: int) -> None:
    """Add a statement to the user's history, and drop the oldest beyond KEPT_MAX."""
    StatementRun.objects.create(
        user=by,
        statement=statement[:STATEMENT_KEPT_CHARS],
        result=result,
        rows=rows,
        took_ms=took_ms,
    )
    newest = StatementRun.objects.filter(user=by).order_by("-pk")
    for pk in newest.values_list("pk", flat=True)[KEPT_MAX - 1 : KEPT_MAX]:
        StatementRun.objects.filter(user=by, pk__lt=pk).delete()


def do_forget_runs(*, by: User) -> int:
    """Delete the user's history and return how many statements it had. The audit keeps its own."""
    deleted, _ = StatementRun.objects.filter(user=by).delete()
    return deleted


def check_run_id(run_id: str) -> None:
    """Check the form of an id. Raises InvalidRequest."""
    if not _RUN_ID.fullmatch(run_id):
        raise InvalidRequest("run_id must be 8 to 64 letters, digits and hyphens", field="run_id")


@contextmanager
def cancellable(run_id: str, *, by: User) -> Iterator[Callable[[], bool] | None]:
    """Let `do_cancel_run` of the same user end what the block runs: yield a function that returns
    whether it did, or None without an id. A file represents the run, so that every process of the
    node can end it.
    """
    if not run_id:
        yield None
        return
    check_run_id(run_id)
    place = _place(run_id, by)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_stale(place.parent)
    place.touch(mode=0o600)
    try:
        yield lambda: not place.exists()
    finally:
        place.unlink(missing_ok=True)


def do_cancel_run(run_id: str, *, by: User) -> bool:
    """End the user's running statement of this id. Return False where none runs."""
    check_run_id(run_id)
    try:
        _place(run_id, by).unlink()
    except FileNotFoundError:
        return False
    return True


def _place(run_id: str, by: User) -> Path:
    return Path(settings.SLUICE_HOME) / "sql" / "runs" / f"{by.pk}-{run_id}"


def _remove_stale(directory: Path) -> None:
    """Files that a process left which was killed."""
    for file in directory.iterdir():
        try:
            if time.time() - file.stat().st_mtime > _STALE_S:
                file.unlink(missing_ok=True)
        except FileNotFoundError:
            continue
