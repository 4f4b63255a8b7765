"""A scan as a LazyFrame of Polars, which hands on columns, filters and limits as it runs.

Of a filter the parts that compare one column with plain values are handed to the scan, which then
leaves files and row groups out; Polars' own filter is applied to every frame, so what was not
understood, or means something else there (NaN), changes no answer: only what both take is given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from workers.errors import InvalidInput
from workers.read.dataset_door import narrowed
from workers.read.scan import Scan

_SIGNS: Final = {"Eq": "=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_TURNED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_Triple = tuple[str, str, Any]


def lazy_frame(scan: Scan) -> Any:
    """The frame; nothing is read yet. Raises InvalidInput where Polars is not installed."""
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise InvalidInput("Polars is not installed: pip install 'sluice[polars]'") from error

    def frames(
        columns: list[str] | None, predicate: Any, rows: int | None, _batch_rows: int | None
    ) -> Iterator[Any]:
        yield from _frames(pl, scan, columns, predicate, rows)

    empty: Any = pl.from_arrow(scan.schema.empty_table())
    return register_io_source(frames, schema=empty.schema, validate_schema=True)


def _frames(
    pl: Any, scan: Scan, columns: list[str] | None, predicate: Any, rows: int | None
) -> Iterator[Any]:
    names = list(scan.columns) if columns is None else columns
    looked_at = [] if predicate is None else predicate.meta.root_names()
    wanted = list(dict.fromkeys([*names, *looked_at]))
    triples = [] if predicate is None else conditions_of(predicate, scan.schema)
    narrow = narrowed(scan, wanted, triples or None)
    if predicate is None and rows is not None:
        narrow = narrow.limited(rows if scan.limit is None else min(rows, scan.limit))
    left = rows
    for batch in narrow.to_batches():
        frame = pl.from_arrow(pa.Table.from_batches([batch]))
        if predicate is not None:
            frame = frame.filter(predicate)
        frame = frame.select(names)
        if left is not None:
            frame = frame.head(left)
            left -= frame.height
        yield frame
        if left == 0:
            return


def conditions_of(predicate: Any, schema: pa.Schema) -> list[_Triple]:
    """Those parts of a Polars filter, all of which must hold, that compare a column with a whole
    number, a text or a boolean. Not of floating columns: NaN is the greatest there.
    """
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except (ValueError, TypeError):
        return []
    return [one for one in _triples(tree) if _is_plain(one, schema)]


def _triples(tree: Any) -> Iterator[_Triple]:
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            yield from _triples(left)
            yield from _triples(right)
        case {"BinaryExpr": {"left": {"Column": str(name)}, "op": str(sign), "right": right}}:
            if sign in _SIGNS and (value := _literal(right)) is not None:
                yield name, _SIGNS[sign], value
        case {"BinaryExpr": {"left": left, "op": str(sign), "right": {"Column": str(name)}}}:
            if sign in _SIGNS and (value := _literal(left)) is not None:
                yield name, _TURNED[_SIGNS[sign]], value
        case _:
            return


def _literal(tree: Any) -> Any:
    """The value of a literal that is spelled plainly; None for others."""
    match tree:
        case {"Literal": {"Dyn": {"Int": int(value)}}}:
            return value
        case {"Literal": {"Scalar": dict(typed)}}:
            (kind, value), *more = typed.items()
            is_plain = kind in ("String", "Boolean") or kind.startswith(("Int", "UInt"))
            return value if is_plain and not more and isinstance(value, (str, int)) else None
        case _:
            return None


def _is_plain(triple: _Triple, schema: pa.Schema) -> bool:
    name, _, value = triple
    if name not in schema.names:
        return False
    kind: Any = schema.field(name).type
    if isinstance(value, bool):
        return pa.types.is_boolean(kind)
    return pa.types.is_string(kind) if isinstance(value, str) else pa.types.is_integer(kind)
