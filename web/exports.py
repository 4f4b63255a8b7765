"""A list as a file: CSV for spreadsheets, JSON for programs. The one way in which pages hand out
lists; it says when it was cut, and how many rows there were.

In CSV a text that a spreadsheet would take for a formula begins with an apostrophe (threat T18).
JSON has every value as it is. Times are UTC, whatever zone the reader's pages are in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.http import HttpResponse

from controlplane.errors import InvalidRequest
from controlplane.row_files import csv_line

Cell = str | int | float | bool | datetime | UUID | None
Columns = Sequence[tuple[str, Callable[[Any], Cell]]]
FORMATS: Final = ("csv", "json")


def exported(
    name: str, as_format: str, columns: Columns, rows: Iterable[Any], *, total: int, at: datetime
) -> HttpResponse:
    """`total` is how many there are; fewer rows say that the list was cut, in the file's name, in a
    header and, in JSON, beside the rows. Raises InvalidRequest for another format.
    """
    if as_format not in FORMATS:
        raise InvalidRequest("the format of an export must be csv or json", format=as_format[:20])
    cells = [[of(row) for _, of in columns] for row in rows]
    keys = [key for key, _ in columns]
    is_cut = len(cells) < total
    body = _csv(keys, cells) if as_format == "csv" else _json(keys, cells, total=total, at=at)
    kind = "text/csv; charset=utf-8" if as_format == "csv" else "application/json"
    answer = HttpResponse(body, content_type=kind)
    cut = f"-first-{len(cells)}-of-{total}" if is_cut else ""
    file = f"{name}-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}{cut}.{as_format}"
    answer["Content-Disposition"] = f'attachment; filename="{file}"'
    answer["X-Rows"] = f"{len(cells)} of {total}"
    return answer


def _csv(keys: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    return "".join(csv_line(row) for row in (keys, *([*map(_plain, cells)] for cells in rows)))


def _json(keys: Sequence[str], cells: Sequence[Sequence[Cell]], *, total: int, at: datetime) -> str:
    rows = [dict(zip(keys, map(_plain, row), strict=True)) for row in cells]
    whole = {"at": _plain(at), "total": total, "is_cut": len(rows) < total, "rows": rows}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _plain(cell: Cell) -> str | int | float | bool | None:
    if isinstance(cell, datetime):
        return cell.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(cell) if isinstance(cell, UUID) else cell
