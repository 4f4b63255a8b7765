"""The mask itself: what stands in the place of a value that somebody may not see. It says nothing
of the value, neither its length nor whether there is one.

A masked struct masks its fields; an array or a map of which any part is masked is masked whole.
Column paths are dotted and compared without regard to case, as Hudi compares names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    import pyarrow as pa

MASK: Final = "\N{BULLET}" * 4
ROW_CHOOSING: Final = frozenset({"predicate", "keys", "cause"})
"""Parameters of operations that choose rows by what they hold, or repeat what one held."""


def is_masked(path: str, masked: Collection[str]) -> bool:
    """Whether the column, or a struct that it is a field of, is masked. `masked`: lower case."""
    names = path.lower().split(".")
    return any(".".join(names[: end + 1]) in masked for end in range(len(names)))


def masks_part(path: str, masked: Collection[str]) -> bool:
    """Whether the column is masked, or a field in it."""
    inner = f"{path.lower()}."
    return is_masked(path, masked) or any(name.startswith(inner) for name in masked)


def masked_rows(rows: pa.Table, masked: Collection[str]) -> pa.Table:
    """The same rows and columns. A masked column is of type string and holds the mark in every row;
    a struct keeps its other fields. Without copies of what is not masked.
    """
    import pyarrow as pa  # Late: few pages read rows.

    columns = [
        _masked_column(column, name, masked)
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    ]
    return pa.table(columns, names=rows.column_names)


def masked_row(
    row: Mapping[str, Any], masked: Collection[str], *, inside: str = ""
) -> dict[str, Any]:
    """The same keys; structs are mappings. `inside`: path of the struct that `row` is of."""
    return {
        str(name): _masked_field(of, f"{inside}.{name}" if inside else str(name), masked)
        for name, of in row.items()
    }


def masked_text(text: str, column: str, masked: Collection[str]) -> str:
    """The text of one column, or the mark where the column or a part of it is masked."""
    return MASK if masks_part(column, masked) else text


def without_row_choices(parameters: Any) -> Any:
    """Parameters of an operation as JSON, at any depth without what chooses rows by values."""
    if isinstance(parameters, Mapping):
        return {
            name: MASK if name in ROW_CHOOSING and of else without_row_choices(of)
            for name, of in parameters.items()
        }
    return parameters


def _masked_field(of: Any, path: str, masked: Collection[str]) -> Any:
    if not masks_part(path, masked):
        return of
    if is_masked(path, masked) or not isinstance(of, Mapping):
        return MASK
    return masked_row(of, masked, inside=path)


def _masked_column(
    column: pa.ChunkedArray[Any], path: str, masked: Collection[str]
) -> pa.ChunkedArray[Any] | pa.Array[Any]:
    import pyarrow as pa

    if not masks_part(path, masked):
        return column
    if is_masked(path, masked) or not pa.types.is_struct(column.type):
        return pa.repeat(pa.scalar(MASK), len(column))
    whole = cast(pa.StructArray, column.combine_chunks())
    fields = [
        _masked_column(pa.chunked_array([whole.field(at)]), f"{path}.{field.name}", masked)
        for at, field in enumerate(column.type)
    ]
    flat = [one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one for one in fields]
    return pa.StructArray.from_arrays(
        flat, names=[field.name for field in column.type], mask=whole.is_null()
    )
