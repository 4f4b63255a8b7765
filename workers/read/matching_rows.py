"""Rows that a `pyarrow.compute` expression takes, on the thread that asks, in their order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.acero as acero

from workers.errors import InvalidInput


def matching(rows: pa.Table, expression: Any) -> pa.Table:
    """Those for which it is true: a row for which it is null is left out."""
    if not rows.num_columns:
        raise InvalidInput("there is no column to filter on", filter=str(expression))
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    steps = [source, acero.Declaration("filter", acero.FilterNodeOptions(expression))]
    return acero.Declaration.from_sequence(steps).to_table(use_threads=False)


def columns_of(expression: Any, schema: pa.Schema) -> frozenset[str]:
    """The columns that an expression looks at, of those that there are. Raises InvalidInput for one
    that names columns by their position.
    """
    text = str(expression)
    if "FieldPath(" in text:
        raise InvalidInput("a filter names columns by their names, not by position", filter=text)
    return frozenset(
        name for name in schema.names if name in text and _needs(expression, schema, name)
    )


def _needs(expression: Any, schema: pa.Schema, name: str) -> bool:
    """Without the column it means nothing."""
    others = schema.remove(schema.get_field_index(name))
    try:
        matching(others.empty_table(), expression)
    except (pa.ArrowException, InvalidInput):
        return True
    return False
