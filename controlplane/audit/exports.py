"""Export of the audit log as a file, streamed page by page: CSV for spreadsheets, JSON for
programs, Parquet for engines.

In CSV, formulas are escaped (`row_files`). JSON has every value as it is stored, so that the hashes
can be computed from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from datetime import UTC
from typing import Any, Literal

import pyarrow as pa

from controlplane.audit.actions import do_record
from controlplane.audit.queries import AuditFilter, AuditRow, load_audit_page
from controlplane.paging import PAGE_ROWS_MAX
from controlplane.row_files import CONTENT_TYPES as FILE_TYPES
from controlplane.row_files import MOMENT, Column, row_file

Format = Literal["csv", "json", "parquet"]
FORMATS: tuple[Format, ...] = ("csv", "json", "parquet")
CONTENT_TYPES = {
    "csv": FILE_TYPES["csv"],
    "json": "application/json",
    "parquet": FILE_TYPES["parquet"],
}
_TYPES = {"at": MOMENT, "id": pa.int64(), "sequence": pa.int64(), "version": pa.int64()}
COLUMNS = [Column(field.name, _TYPES.get(field.name, pa.string())) for field in fields(AuditRow)]
WHAT = "audit.export"


def do_export(row_filter: AuditFilter, as_format: Format, *, by: str) -> Iterator[bytes]:
    """Yield the file in pieces, newest rows first. The export is recorded before the first piece,
    and with the number of rows after the last.
    """
    details = {"as": as_format, "filter": row_filter.to_text()}
    do_record(who=by, what=WHAT, subject="audit", result="requested", details=details)
    pages = _Pages(row_filter)
    if as_format == "json":
        yield from _format_json(pages)
    else:
        as_rows = ([list(row.values()) for row in page] for page in pages)
        yield from row_file(as_format, COLUMNS, as_rows)
    done = {**details, "rows": pages.rows}
    do_record(who=by, what=WHAT, subject="audit", result="done", details=done)


class _Pages:
    """The pages as JSON values, with the number of rows so far."""

    def __init__(self, row_filter: AuditFilter) -> None:
        self._filter = row_filter
        self.rows = 0

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        cursor: str | None = None
        while True:
            page = load_audit_page(self._filter, cursor=cursor, limit=PAGE_ROWS_MAX)
            if page.rows:
                yield [_to_json(row) for row in page.rows]
                self.rows += len(page.rows)
            if page.next_cursor is None:
                return
            cursor = page.next_cursor


def _format_json(pages: _Pages) -> Iterator[bytes]:
    yield b"[\n"
    for rows in pages:
        lines = ",\n".join(json.dumps(row, sort_keys=True) for row in rows)
        yield (lines if pages.rows == 0 else f",\n{lines}").encode()
    yield b"\n]\n"


def _to_json(row: AuditRow) -> dict[str, Any]:
    at = row.at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return {**asdict(row), "at": at}
