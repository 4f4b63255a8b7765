"""Values of rows as JSON has them."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa


def cells(rows: pa.Table) -> list[list[Any]]:
    """Row by row. Times as ISO 8601; decimals with a fraction, binaries (base64) and numbers that
    JSON has no word for (`NaN`, `Infinity`) as text; structs by their names, maps as pairs.
    """
    columns = [[_cell(cell) for cell in column.to_pylist()] for column in rows.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _cell(cell: Any) -> Any:
    match cell:
        case float() if not math.isfinite(cell):
            return "NaN" if math.isnan(cell) else "Infinity" if cell > 0 else "-Infinity"
        case None | bool() | int() | float() | str():
            return cell
        case datetime() | date() | time():
            return cell.isoformat()
        case bytes():
            return base64.b64encode(cell).decode()
        case Mapping():
            return {str(name): _cell(inner) for name, inner in cell.items()}
        case list() | tuple():
            return [_cell(inner) for inner in cell]
        case Decimal() if cell.as_tuple().exponent == 0:
            return int(cell)
        case Decimal() | timedelta() | _:
            return str(cell)
