"""Shape of JSON for a schema: the parser's types, and rewrites of JSON that it cannot read.

Dates and times may be text or numbers. The first record with a value determines the kind. A batch
with both kinds is parsed in parts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

Path: TypeAlias = tuple[str, ...]
"""`("a", "[]", "b")` is the field b of the structs in the list a; `{}` is a map's values."""
NumberAt: TypeAlias = Mapping[Path, bool]

DEPTH_MAX = 200
"""The parser is recursive, so a value with too many levels would crash the process."""

_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LEVELS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def read_type(column_type: Any, number_at: NumberAt, path: Path) -> pa.DataType:
    """Return the type that the parser reads in place of this type."""
    types = pa.types
    if types.is_timestamp(column_type):
        return pa.int64() if number_at.get(path, False) else column_type
    if types.is_date32(column_type):
        return pa.int32() if number_at.get(path, False) else pa.string()
    if types.is_binary(column_type):
        return pa.string()
    if types.is_list(column_type):
        inner = read_type(column_type.value_type, number_at, (*path, "[]"))
        return pa.list_(pa.field("element", inner))
    if types.is_map(column_type):
        value = read_type(column_type.item_type, number_at, (*path, "{}"))
        pair = [("key", pa.string()), ("value", value)]
        return pa.list_(pa.field("element", pa.struct(pair)))
    if types.is_struct(column_type):
        return pa.struct(
            [
                (child.name, read_type(child.type, number_at, (*path, child.name)))
                for child in _children(column_type)
            ]
        )
    assert isinstance(column_type, pa.DataType)
    return column_type


def list_temporal_paths(column_type: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of dates and times."""
    types = pa.types
    if types.is_timestamp(column_type) or types.is_date32(column_type):
        yield path
    elif types.is_list(column_type):
        yield from list_temporal_paths(column_type.value_type, (*path, "[]"))
    elif types.is_map(column_type):
        yield from list_temporal_paths(column_type.item_type, (*path, "{}"))
    elif types.is_struct(column_type):
        for child in _children(column_type):
            yield from list_temporal_paths(child.type, (*path, child.name))


def has_map(column_type: Any) -> bool:
    """Check whether the type is a map, or has one within its lists and structs."""
    types = pa.types
    if types.is_list(column_type):
        return has_map(column_type.value_type)
    if types.is_struct(column_type):
        return any(has_map(child.type) for child in _children(column_type))
    return types.is_map(column_type)


def find_numbers(value: bytes, paths: list[Path], number_at: NumberAt) -> dict[Path, bool]:
    """Return `number_at`, corrected by the values at these paths of one record."""
    try:
        record = json.loads(value)
    except (ValueError, RecursionError):
        return dict(number_at)
    corrected = dict(number_at)
    for path in paths:
        first = next(_find_values(record, path), None)
        if first is not None:
            corrected[path] = not isinstance(first, str)
    return corrected


def measure_depth(value: bytes) -> int:
    """Return the nesting depth of arrays and objects. For valid JSON it is never too low."""
    deepest = level = 0
    for byte in _TEXTS.sub(b"", value):
        level += _LEVELS.get(byte, 0)
        deepest = max(deepest, level)
    return deepest


def maps_to_pairs(value: bytes, struct: Any) -> bytes:
    """Return the same JSON with each map as a list of pairs, which the parser can read.

    The text of numbers and duplicate fields does not change. Raises ValueError.
    """
    read = json.loads(
        value.decode(),
        object_pairs_hook=_Pairs,
        parse_float=_Spelled,
        parse_int=_Spelled,
        parse_constant=_Spelled,
    )
    return _spell(read, struct).encode("utf-8", "surrogatepass")


class _Pairs(list[Any]):
    """Fields of an object, in order."""


class _Spelled(str):
    __slots__ = ()


def _spell(node: Any, node_type: Any) -> str:
    """Format the node as JSON. `node_type` is the type at this place, or None without a column."""
    match node:
        case _Spelled():
            return str(node)
        case _Pairs() if node_type is not None and pa.types.is_map(node_type):
            items = node_type.item_type
            pairs = [f'{{"key":{json.dumps(k)},"value":{_spell(v, items)}}}' for k, v in node]
            return f"[{','.join(pairs)}]"
        case _Pairs():
            types: dict[str, Any] = {}
            if node_type is not None and pa.types.is_struct(node_type):
                types = {child.name: child.type for child in _children(node_type)}
            fields = [f"{json.dumps(k)}:{_spell(v, types.get(k))}" for k, v in node]
            return f"{{{','.join(fields)}}}"
        case list():
            if node_type is not None and pa.types.is_map(node_type):
                return '"an array where an object belongs"'
            inner: Any = None
            if node_type is not None and pa.types.is_list(node_type):
                inner = node_type.value_type
            return f"[{','.join(_spell(item, inner) for item in node)}]"
        case _:
            return json.dumps(node)


def _find_values(node: Any, path: Path) -> Iterator[Any]:
    """Yield the values at the path that are not null, in the order of the record."""
    if not path:
        if node is not None:
            yield node
        return
    step, rest = path[0], path[1:]
    if step == "[]" and isinstance(node, list):
        for element in node:
            yield from _find_values(element, rest)
    elif step == "{}" and isinstance(node, list):
        for element in node:
            yield from _find_values(element, ("value", *rest))
    elif isinstance(node, dict):
        yield from _find_values(node.get(step), rest)


def _children(struct: Any) -> list[Any]:
    return [struct.field(at) for at in range(struct.num_fields)]
