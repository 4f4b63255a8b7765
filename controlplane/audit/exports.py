"""The audit as a file: CSV for spreadsheets, JSON for programs, streamed page by page.

In CSV a cell that a spreadsheet would take for a formula begins with an apostrophe (threat T18);
JSON has every value as it is stored, so that hashes can be made again from it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from datetime import UTC
from typing import Any, Literal

from controlplane.audit.actions import do_record
from controlplane.audit.queries import AuditFilter, AuditRow, audit_page
from controlplane.paging import PAGE_ROWS_MAX

Format = Literal["csv", "json"]
FORMATS: tuple[Format, ...] = ("csv", "json")
CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
COLUMNS = tuple(field.name for field in fields(AuditRow))
WHAT = "audit.export"
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\0")


def do_export(wanted: AuditFilter, as_format: Format, *, by: str) -> Iterator[str]:
    """The file in pieces, newest rows first. That it is taken is itself recorded: before the first
    piece, and with the number of rows after the last.
    """
    details = {"as": as_format, "filter": wanted.named()}
    do_record(who=by, what=WHAT, subject="audit", result="requested", details=details)
    rows = 0
    yield _head(as_format)
    for page in _pages(wanted):
        yield _piece(as_format, page, is_first=rows == 0)
        rows += len(page)
    if as_format == "json":
        yield "\n]\n"
    done = {**details, "rows": rows}
    do_record(who=by, what=WHAT, subject="audit", result="done", details=done)


def defused(text: str) -> str:
    """The text as a cell that no spreadsheet computes."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _pages(wanted: AuditFilter) -> Iterator[list[AuditRow]]:
    cursor: str | None = None
    while True:
        page = audit_page(wanted, cursor=cursor, limit=PAGE_ROWS_MAX)
        if page.rows:
            yield page.rows
        if page.next_cursor is None:
            return
        cursor = page.next_cursor


def _head(as_format: Format) -> str:
    return "[\n" if as_format == "json" else _csv_lines([list(COLUMNS)])


def _piece(as_format: Format, rows: list[AuditRow], *, is_first: bool) -> str:
    if as_format == "json":
        lines = ",\n".join(json.dumps(_plain(row), sort_keys=True) for row in rows)
        return lines if is_first else f",\n{lines}"
    return _csv_lines([[_cell(text) for text in _plain(row).values()] for row in rows])


def _csv_lines(lines: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(lines)
    return text.getvalue()


def _cell(content: Any) -> str:
    if content is None:
        return ""
    text = content if isinstance(content, str) else json.dumps(content, sort_keys=True)
    return defused(text)


def _plain(row: AuditRow) -> dict[str, Any]:
    at = row.at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return {**asdict(row), "at": at}
