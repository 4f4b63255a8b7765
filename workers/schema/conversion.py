"""Exact conversion of Arrow columns to the types of a table.

A value fits if the table's type has an equal one: a whole float becomes an integer, an integer that
a float holds exactly becomes a float, and a float and a decimal convert if they are spelled alike.
A value that does not fit is refused with its row. It is never rounded, cut off or wrapped around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import BadRows
from workers.schema.bad_rows import bad_rows, find_failing_rows
from workers.schema.from_arrow import has_no_value, is_list, is_opaque, unwrap_type

_LOST_ROWS_MAX = 20_000
"""The search for rows whose value does not fit stops at this number."""
_PIECE_BYTES_MAX = 1 << 30
"""Offsets of plain text and lists end at 2^31, so larger chunks are converted in pieces."""
_Array = Any
_Convert = Callable[[_Array, pa.DataType], _Array]
"""Raises ArrowException if one of the values does not fit."""


def can_fit(source: Any, target: Any) -> bool:
    """Check whether two types have values in common, so that `fit_column` converts them."""
    source = unwrap_type(source)
    if source == target or pa.types.is_null(source):
        return True
    if is_list(target):
        return is_list(source) and can_fit(source.value_type, target.value_type)
    if pa.types.is_map(target):
        if pa.types.is_struct(source):
            return has_no_value(source)
        return pa.types.is_map(source) and (
            can_fit(source.key_type, target.key_type)
            and can_fit(source.item_type, target.item_type)
        )
    if pa.types.is_struct(target):
        return pa.types.is_struct(source) and all(
            has_no_value(child.type)
            if (at := target.get_field_index(child.name)) < 0
            else can_fit(child.type, target.field(at).type)
            for child in source
        )
    return _find_converter(source, target) is not None


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


def decode_columns(batch: pa.Table) -> pa.Table:
    """Return a batch without extension types, run-end encoding and views, for which Arrow lacks
    functions, and with `int64` in place of `uint64` if all values of the column fit.
    """
    for at, field in enumerate(batch.schema):
        plain = _rebuild(field.type, _PLAIN)
        signed = _rebuild(plain, {pa.uint64(): pa.int64()})
        column: Any = batch.column(at)
        try:
            column = fit_column(column, signed, name=field.name)
        except BadRows:
            column = fit_column(column, plain, name=field.name)
        if column.type != field.type:
            batch = batch.set_column(at, field.with_type(column.type), column)
    return batch


def decode_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema that `decode_columns` gives batches of any values: `uint64` stays."""
    return pa.schema([field.with_type(_rebuild(field.type, _PLAIN)) for field in schema])


_PLAIN: Final[Mapping[pa.DataType, pa.DataType]] = {
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}


def _rebuild(source: Any, types: Mapping[pa.DataType, pa.DataType]) -> Any:
    """Replace types at every depth. A dictionary keeps its encoding if its values stay."""
    plain: Any = unwrap_type(source)
    result: pa.DataType = types.get(plain, plain)
    if is_list(plain):
        result = pa.list_(plain.value_field.with_type(_rebuild(plain.value_type, types)))
        is_same = pa.types.is_list(plain) and result == plain
        result = plain if is_same else result
    elif pa.types.is_map(plain):
        item: Any = plain.item_field.with_type(_rebuild(plain.item_type, types))
        result = pa.map_(_rebuild(plain.key_type, types), item)
    elif pa.types.is_struct(plain):
        result = pa.struct([child.with_type(_rebuild(child.type, types)) for child in plain])
    return source if pa.types.is_dictionary(source) and result == source.value_type else result


def find_left_out_columns(batch: pa.Schema, table: pa.Schema) -> list[str]:
    """Return the paths of columns and nested fields without any value that the table lacks."""
    return list(_find_left_out(batch, {field.name: field.type for field in table}, ""))


def _find_left_out(source: Any, types_by_name: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for field in source:
        path, target = prefix + field.name, types_by_name.get(field.name)
        kind: Any = unwrap_type(field.type)
        if target is None and has_no_value(kind):
            yield path
        while target is not None and is_list(kind) and pa.types.is_list(target):
            path, kind, target = f"{path}.element", unwrap_type(kind.value_type), target.value_type
        if target is not None and pa.types.is_struct(kind) and pa.types.is_struct(target):
            yield from _find_left_out(
                kind, {child.name: child.type for child in target}, f"{path}."
            )


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

    def check(self, source: pa.DataType, target: pa.DataType) -> None:
        """Refuse misfits. Raises BadRows."""
        if not self._misfits:
            return
        first = self._misfits[0]
        rows = [misfit.rows for misfit in self._misfits if misfit.path == first.path]
        raise bad_rows(
            np.unique(np.concatenate(rows)).tolist(),
            "column holds a value that the table cannot hold",
            first.path,
            why=first.why,
            batch=source,
            table=target,
        )

    def fit(self, values: _Array, target: Any, path: str, rows: np.ndarray[Any, Any]) -> _Array:
        """Convert values. `rows` holds the row of the column for each value."""
        values = _decode(values, target)
        source = values.type
        if source == target:
            return values
        if pa.types.is_null(source):
            return pa.nulls(len(values), target)
        if is_list(target):
            return self._convert_list(values, target, path, rows)
        if pa.types.is_map(target):
            return self._convert_map(values, target, path, rows)
        if pa.types.is_struct(target):
            return self._convert_struct(values, target, path, rows)
        convert = _find_converter(source, target)
        assert convert is not None, (path, source, target)
        try:
            return convert(values, target)
        except pa.ArrowException:
            bad = self._find_misfits(values, target, path, rows, convert)
            is_good = np.ones(len(values), np.bool_)
            is_good[bad] = False
            return convert(pc.if_else(pa.array(is_good), values, pa.scalar(None, source)), target)

    def _find_misfits(
        self, values: _Array, target: Any, path: str, rows: np.ndarray[Any, Any], convert: _Convert
    ) -> list[int]:
        def fails(start: int, count: int) -> bool:
            try:
                convert(values.slice(start, count), target)
            except pa.ArrowException:
                return True
            return False

        bad = find_failing_rows(len(values), fails, most=_LOST_ROWS_MAX)
        why = _explain(values.type, target)
        self._misfits.append(_Misfit(path, rows[bad], why))
        if len(bad) == _LOST_ROWS_MAX:  # There may be more, and `convert` would fail again.
            self.check(values.type, target)
        return bad

    def _convert_list(
        self, values: _Array, target: Any, path: str, rows: np.ndarray[Any, Any]
    ) -> _Array:
        offsets, inner, parents = _flatten(values)
        inside = self.fit(inner, target.value_type, f"{path}.element", rows[parents])
        return pa.ListArray.from_arrays(offsets, inside, type=target, mask=_find_nulls(values))

    def _convert_map(
        self, values: _Array, target: Any, path: str, rows: np.ndarray[Any, Any]
    ) -> _Array:
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
            mask=_find_nulls(values),
        )

    def _convert_struct(
        self, values: _Array, target: Any, path: str, rows: np.ndarray[Any, Any]
    ) -> _Array:
        place_by_name = {child.name: at for at, child in enumerate(values.type)}
        children = values.flatten()  # Null below a null struct.
        inside = [
            self.fit(children[place_by_name[child.name]], child.type, f"{path}.{child.name}", rows)
            if child.name in place_by_name
            else pa.nulls(len(values), child.type)
            for child in target
        ]
        return pa.StructArray.from_arrays(inside, fields=list(target), mask=_find_nulls(values))


def _find_nulls(values: _Array) -> _Array:
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
            texts = [None if value is None else str(value) for value in values.to_pylist()]
            return pa.array(texts, pa.string())
        if isinstance(kind, pa.BaseExtensionType) and not is_opaque(kind):
            values = values.cast(pa.bool_()) if kind == pa.bool8() else values.storage
        elif pa.types.is_dictionary(kind):
            words = _cast_view(values.dictionary)
            values = pa.DictionaryArray.from_arrays(values.indices, words).dictionary_decode()
        elif pa.types.is_run_end_encoded(kind):
            at = np.arange(values.offset, values.offset + len(values))
            runs = np.searchsorted(values.run_ends.to_numpy(), at, side="right")
            values = _cast_view(values.values).take(pa.array(runs))
        else:
            return values


def _cast_view(values: _Array) -> _Array:
    """Convert text and bytes for which Arrow lacks functions."""
    return values.cast(_PLAIN.get(values.type, values.type))


def _find_converter(source: Any, target: Any) -> _Convert | None:
    """Return the conversion between two plain types; None if they mean different things."""
    types = pa.types
    if source == target:
        return _cast_safely
    if types.is_string(target):
        is_text = types.is_large_string(source) or types.is_string_view(source)
        return _cast_safely if is_text else None
    if types.is_binary(target):
        is_bytes = types.is_large_binary(source) or types.is_binary_view(source)
        return _cast_safely if is_bytes or types.is_fixed_size_binary(source) else None
    if types.is_timestamp(target):
        if types.is_date(source):
            return None if target.tz else _cast_safely
        is_alike = types.is_timestamp(source) and bool(source.tz) == bool(target.tz)
        return _cast_safely if is_alike else None
    if types.is_date32(target):
        return _convert_to_date if types.is_date64(source) or _is_zoneless(source) else None
    if types.is_time(target):
        return _cast_safely if types.is_time(source) else None
    return _find_number_converter(source, target)


def _find_number_converter(source: Any, target: Any) -> _Convert | None:
    types = pa.types
    is_decimal = types.is_decimal(source)
    if types.is_integer(target):
        if types.is_integer(source) or is_decimal:
            return _cast_safely
        return _convert_to_integer if types.is_floating(source) else None
    if types.is_floating(target):
        if is_decimal:
            return _convert_decimal
        return _convert_to_float if types.is_integer(source) or types.is_floating(source) else None
    if types.is_decimal(target):
        if types.is_integer(source):
            return _convert_integer
        if types.is_floating(source):
            return _convert_float
        return _rescale if is_decimal else None
    return None


def _is_zoneless(source: Any) -> bool:
    return bool(pa.types.is_timestamp(source) and not source.tz)


def _cast_safely(values: _Array, target: pa.DataType) -> _Array:
    return values.cast(target)


def _convert_to_date(values: _Array, target: pa.DataType) -> _Array:
    dates = values.cast(target)
    _require(pc.equal(dates.cast(values.type), values))
    return dates


def _convert_to_integer(values: _Array, target: Any) -> _Array:
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


def _convert_to_float(values: _Array, target: Any) -> _Array:
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


def _convert_integer(values: _Array, target: Any) -> _Array:
    is_narrow = target.scale + _INTEGER_DIGITS <= _DECIMAL128_DIGITS
    wide = pa.decimal128(38, target.scale) if is_narrow else pa.decimal256(76, target.scale)
    return values.cast(wide).cast(target)


def _rescale(values: _Array, target: pa.DataType) -> _Array:
    decimals = values.cast(target)
    # Arrow wraps around values with too many digits before the point.
    _require(pc.equal(decimals.cast(values.type), values))
    return decimals


def _convert_float(values: _Array, target: pa.DataType) -> _Array:
    """Convert by the shortest spelling, such as 9.99, which reads back as the same float."""
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    decimals = values.cast(pa.string()).cast(target)
    # As in `_rescale`.
    _require(pc.equal(decimals.cast(pa.string()).cast(values.type), values))
    return decimals


def _convert_decimal(values: _Array, target: pa.DataType) -> _Array:
    """Convert if the float is spelled like the decimal."""
    floats = values.cast(pa.string()).cast(target)
    _require(pc.equal(floats.cast(pa.string()).cast(values.type), values))
    return floats


def _require(is_right: _Array) -> None:
    """Raises ArrowInvalid if a value is false."""
    if pc.any(pc.invert(is_right)).as_py():
        raise pa.ArrowInvalid("a value does not fit")


def _explain(source: Any, target: Any) -> str:
    types = pa.types
    if types.is_integer(target):
        if types.is_integer(source):
            return f"it is outside the range of {target}"
        return f"it is not a whole number in the range of {target}"
    if types.is_floating(target):
        return f"no {target} is exactly it"
    if types.is_decimal(target):
        return f"it has digits that {target} has no place for"
    if types.is_date32(target):
        return "it has a time of day"
    if types.is_temporal(target):
        return f"it is finer than {target}, or outside its range"
    return f"it is not a {target}"
