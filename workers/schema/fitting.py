"""Exact conversion of Arrow columns to the types of a table.

A value fits if the table's type has an equal one: a whole float becomes an integer, an integer that
a float holds exactly becomes a float, and a float and a decimal convert if they are spelled alike.
A value that does not fit is refused with its row. It is never rounded, cut off or wrapped around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.schema.bad_rows import bad_rows, failing_rows
from workers.schema.from_arrow import has_no_value, is_list, unwrap_type

_LOST_ROWS_MAX = 20_000
"""The search for rows whose value does not fit stops at this number."""
_PIECE_BYTES_MAX = 1 << 30
"""Offsets of plain text and lists end at 2^31, so larger chunks are converted in pieces."""
_Array = Any
_Convert = Callable[[_Array, pa.DataType], _Array]
"""Raises ArrowException if one of the values does not fit."""


def can_fit(given: Any, target: Any) -> bool:
    """Check whether two types have values in common, so that `fit_column` converts them."""
    given = unwrap_type(given)
    if given == target or pa.types.is_null(given):
        return True
    if is_list(target):
        return is_list(given) and can_fit(given.value_type, target.value_type)
    if pa.types.is_map(target):
        if pa.types.is_struct(given):
            return has_no_value(given)
        return pa.types.is_map(given) and (
            can_fit(given.key_type, target.key_type) and can_fit(given.item_type, target.item_type)
        )
    if pa.types.is_struct(target):
        return pa.types.is_struct(given) and all(
            has_no_value(child.type)
            if (at := target.get_field_index(child.name)) < 0
            else can_fit(child.type, target.field(at).type)
            for child in given
        )
    return _find_converter(given, target) is not None


def fit_column(
    column: pa.ChunkedArray[Any], target: pa.DataType, *, name: str
) -> pa.ChunkedArray[Any]:
    """Return the same values in the table's type. `can_fit` must hold for the types.

    Raises BadRows if the type cannot hold some of them.
    """
    if column.type == target:
        return column
    fitting = _Fitting()
    parts: list[_Array] = []
    start = 0
    for piece in _split(column):
        rows = np.arange(start, start + len(piece))
        parts.append(fitting.fit(piece, target, name, rows))
        start += len(piece)
    fitting.check(column.type, target)
    kind: Any = target
    result: Any = pa.chunked_array(parts, kind)
    return cast("pa.ChunkedArray[Any]", result)


def _split(column: pa.ChunkedArray[Any]) -> Iterator[_Array]:
    for chunk in column.chunks:
        count = 1 + chunk.nbytes // _PIECE_BYTES_MAX
        size = max(1, -(-len(chunk) // count))
        for start in range(0, len(chunk), size):
            yield chunk.slice(start, size)


@dataclass(frozen=True, slots=True)
class _Misfit:
    path: str
    rows: np.ndarray[Any, Any]
    why: str


class _Fitting:
    """The conversion of one column, which collects the misfits of all its chunks."""

    def __init__(self) -> None:
        self._misfits: list[_Misfit] = []

    def check(self, given: pa.DataType, target: pa.DataType) -> None:
        """Raises BadRows if there are misfits."""
        if not self._misfits:
            return
        first = self._misfits[0]
        rows = [one.rows for one in self._misfits if one.path == first.path]
        raise bad_rows(
            np.unique(np.concatenate(rows)).tolist(),
            "column holds a value that the table cannot hold",
            first.path,
            why=first.why,
            batch=given,
            table=target,
        )

    def fit(self, values: _Array, target: Any, path: str, rows: np.ndarray[Any, Any]) -> _Array:
        """Convert values. `rows` holds the row of the column for each value."""
        values = _decode(values, target)
        given = values.type
        if given == target:
            return values
        if pa.types.is_null(given):
            return pa.nulls(len(values), target)
        if is_list(target):
            return self._list(values, target, path, rows)
        if pa.types.is_map(target):
            return self._map(values, target, path, rows)
        if pa.types.is_struct(target):
            return self._struct(values, target, path, rows)
        convert = _find_converter(given, target)
        assert convert is not None, (path, given, target)
        try:
            return convert(values, target)
        except pa.ArrowException:
            bad = self._find_misfits(values, target, path, rows, convert)
            is_good = np.ones(len(values), np.bool_)
            is_good[bad] = False
            return convert(pc.if_else(pa.array(is_good), values, pa.scalar(None, given)), target)

    def _find_misfits(
        self, values: _Array, target: Any, path: str, rows: np.ndarray[Any, Any], convert: _Convert
    ) -> list[int]:
        def fails(start: int, count: int) -> bool:
            try:
                convert(values.slice(start, count), target)
            except pa.ArrowException:
                return True
            return False

        bad = failing_rows(len(values), fails, most=_LOST_ROWS_MAX)
        why = _explain(values.type, target)
        self._misfits.append(_Misfit(path, rows[bad], why))
        if len(bad) == _LOST_ROWS_MAX:  # There may be more, and `convert` would fail again.
            self.check(values.type, target)
        return bad

    def _list(self, values: _Array, target: Any, path: str, rows: np.ndarray[Any, Any]) -> _Array:
        offsets, inner, parents = _flatten(values)
        inside = self.fit(inner, target.value_type, f"{path}.element", rows[parents])
        return pa.ListArray.from_arrays(offsets, inside, type=target, mask=_null_mask(values))

    def _map(self, values: _Array, target: Any, path: str, rows: np.ndarray[Any, Any]) -> _Array:
        if pa.types.is_struct(values.type):  # `{}` from a library without maps.
            empty = pa.array([[]], target)[0]
            return pc.if_else(pc.is_valid(values), empty, pa.scalar(None, target))
        key, value = (
            pa.field("key", values.type.key_type, nullable=False),
            pa.field("value", values.type.item_type),
        )
        entries = values.cast(pa.list_(pa.field("entries", pa.struct([key, value]))))
        offsets, inner, parents = _flatten(entries)
        keys, items = inner.flatten()
        return pa.MapArray.from_arrays(
            offsets,
            self.fit(keys, target.key_type, f"{path}.key", rows[parents]),
            self.fit(items, target.item_type, f"{path}.value", rows[parents]),
            type=target,
            mask=_null_mask(values),
        )

    def _struct(self, values: _Array, target: Any, path: str, rows: np.ndarray[Any, Any]) -> _Array:
        brought = {child.name: at for at, child in enumerate(values.type)}
        children = values.flatten()  # Null below a null struct.
        inside = [
            self.fit(children[brought[child.name]], child.type, f"{path}.{child.name}", rows)
            if child.name in brought
            else pa.nulls(len(values), child.type)
            for child in target
        ]
        return pa.StructArray.from_arrays(inside, fields=list(target), mask=_null_mask(values))


def _null_mask(values: _Array) -> _Array:
    return pc.is_null(values) if values.null_count else None


def _flatten(values: _Array) -> tuple[_Array, _Array, np.ndarray[Any, Any]]:
    """Return offsets, inner values and the index of the list of each inner value. Null lists have
    no inner values.
    """
    counts: Any = pc.list_value_length(values)
    lengths = pc.fill_null(counts, 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int32)
    parents = np.repeat(np.arange(len(values)), lengths)
    return pa.array(offsets), pc.list_flatten(values), parents


def _decode(values: _Array, target: pa.DataType) -> _Array:
    """Remove encodings (dictionary, run-end) and extension types."""
    while True:
        kind = values.type
        if isinstance(kind, pa.UuidType) and pa.types.is_string(target):
            texts = [None if one is None else str(one) for one in values.to_pylist()]
            return pa.array(texts, pa.string())
        if isinstance(kind, pa.BaseExtensionType):
            values = values.cast(pa.bool_()) if kind == pa.bool8() else values.storage
        elif pa.types.is_dictionary(kind):
            values = values.dictionary_decode()
        elif pa.types.is_run_end_encoded(kind):
            decode: Any = pc.run_end_decode  # type: ignore[attr-defined] # The stubs lack it.
            values = decode(values)
        else:
            return values


def _find_converter(given: Any, target: Any) -> _Convert | None:
    """Return the conversion between two plain types; None if they mean different things."""
    types = pa.types
    if given == target:
        return _cast_safely
    if types.is_string(target):
        is_text = types.is_large_string(given) or types.is_string_view(given)
        return _cast_safely if is_text else None
    if types.is_binary(target):
        is_bytes = types.is_large_binary(given) or types.is_binary_view(given)
        return _cast_safely if is_bytes or types.is_fixed_size_binary(given) else None
    if types.is_timestamp(target):
        if types.is_date(given):
            return None if target.tz else _cast_safely
        is_alike = types.is_timestamp(given) and bool(given.tz) == bool(target.tz)
        return _cast_safely if is_alike else None
    if types.is_date32(target):
        return _to_date if types.is_date64(given) or _is_zoneless(given) else None
    if types.is_time(target):
        return _cast_safely if types.is_time(given) else None
    return _find_number_converter(given, target)


def _find_number_converter(given: Any, target: Any) -> _Convert | None:
    types = pa.types
    is_decimal = types.is_decimal(given)
    if types.is_integer(target):
        if types.is_integer(given) or is_decimal:
            return _cast_safely
        return _to_integer if types.is_floating(given) else None
    if types.is_floating(target):
        if is_decimal:
            return _decimal_to_float
        return _to_float if types.is_integer(given) or types.is_floating(given) else None
    if types.is_decimal(target):
        if types.is_integer(given):
            return _integer_to_decimal
        if types.is_floating(given):
            return _float_to_decimal
        return _rescale if is_decimal else None
    return None


def _is_zoneless(given: Any) -> bool:
    return bool(pa.types.is_timestamp(given) and not given.tz)


def _cast_safely(values: _Array, target: pa.DataType) -> _Array:
    return values.cast(target)


def _to_date(values: _Array, target: pa.DataType) -> _Array:
    dates = values.cast(target)
    _require(pc.equal(dates.cast(values.type), values))
    return dates


def _to_integer(values: _Array, target: Any) -> _Array:
    """Convert floats to integers."""
    floats = values.cast(pa.float64())
    limit = 2.0 ** (target.bit_width - 1)  # Exact as a float; limit - 1 is not.
    _require(
        pc.and_(
            pc.equal(pc.floor(floats), floats),
            pc.and_(pc.greater_equal(floats, -limit), pc.less(floats, limit)),
        )
    )
    return floats.cast(target, safe=False)


def _to_float(values: _Array, target: Any) -> _Array:
    """Convert integers and other floats to floats."""
    result = values.cast(target, safe=False)
    if pa.types.is_floating(values.type):
        same = pc.equal(result.cast(pa.float64()), values.cast(pa.float64()))
        _require(pc.or_(same, pc.is_nan(values)))
    else:
        # The nearest float of the greatest integers is outside the integer type.
        limit = 2.0 ** (values.type.bit_width - pa.types.is_signed_integer(values.type))
        is_inside = pc.less(result.cast(pa.float64()), limit)
        inside = pc.if_else(is_inside, result, pa.scalar(0, target))
        back = inside.cast(values.type, safe=False)
        _require(pc.and_(is_inside, pc.equal(back, values)))
    return result


_INTEGER_DIGITS: Final = 20
_DECIMAL128_DIGITS: Final = 38


def _integer_to_decimal(values: _Array, target: Any) -> _Array:
    is_narrow = target.scale + _INTEGER_DIGITS <= _DECIMAL128_DIGITS
    wide = pa.decimal128(38, target.scale) if is_narrow else pa.decimal256(76, target.scale)
    return values.cast(wide).cast(target)


def _rescale(values: _Array, target: pa.DataType) -> _Array:
    decimals = values.cast(target)
    # Arrow wraps around values with too many digits before the point.
    _require(pc.equal(decimals.cast(values.type), values))
    return decimals


def _float_to_decimal(values: _Array, target: pa.DataType) -> _Array:
    """Convert by the shortest spelling, such as 9.99, which reads back as the same float."""
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    decimals = values.cast(pa.string()).cast(target)
    # As in `_rescale`.
    _require(pc.equal(decimals.cast(pa.string()).cast(values.type), values))
    return decimals


def _decimal_to_float(values: _Array, target: pa.DataType) -> _Array:
    """Convert if the float is spelled like the decimal."""
    floats = values.cast(pa.string()).cast(target)
    _require(pc.equal(floats.cast(pa.string()).cast(values.type), values))
    return floats


def _require(is_right: _Array) -> None:
    """Raises ArrowInvalid if a value is false."""
    if pc.any(pc.invert(is_right)).as_py():
        raise pa.ArrowInvalid("a value does not fit")


def _explain(given: Any, target: Any) -> str:
    types = pa.types
    if types.is_integer(target):
        if types.is_integer(given):
            return f"it is outside the range of {target}"
        return f"it is no whole number in the range of {target}"
    if types.is_floating(target):
        return f"no {target} is exactly it"
    if types.is_decimal(target):
        return f"it has digits that {target} has no place for"
    if types.is_date32(target):
        return "it has a time of day"
    if types.is_temporal(target):
        return f"it is finer than {target}, or outside its range"
    return f"it is no {target}"
