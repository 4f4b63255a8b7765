"""Answers made from the dataclasses of queries, and the serializers that describe them: both come
from the same declarations, so the OpenAPI document never differs from the answers.

Answers are not made by these serializers, which copy each of their fields for each row: a page of
a hundred rows took them 25 ms.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from rest_framework import serializers

Output = type[serializers.Serializer[Any]]
_Field = serializers.Field[Any, Any, Any, Any]

_SIMPLE: Mapping[Any, type[_Field]] = {
    str: serializers.CharField,
    int: serializers.IntegerField,
    float: serializers.FloatField,
    bool: serializers.BooleanField,
    datetime: serializers.DateTimeField,
    UUID: serializers.UUIDField,
}
_made: dict[tuple[type, str], Output] = {}
_plainers: dict[type, Callable[[Any], dict[str, Any]]] = {}


def output(row: type) -> Output:
    """The serializer of a dataclass: same names, same order."""
    if (row, "") not in _made:
        hints = get_type_hints(row)
        declared = {entry.name: _field(hints[entry.name]) for entry in fields(row)}
        _made[row, ""] = _serializer(row.__name__, {"__doc__": row.__doc__, **declared})
    return _made[row, ""]


def page_of(row: type) -> Output:
    """`{results, next_cursor}` around rows of one kind."""
    if (row, "page") not in _made:
        declared = {
            "results": output(row)(many=True),
            "next_cursor": serializers.CharField(allow_null=True),
        }
        _made[row, "page"] = _serializer(f"{row.__name__}Page", declared)
    return _made[row, "page"]


def shown(row: Any) -> dict[str, Any]:
    """What JSON says of a dataclass: same names, same order."""
    kind = type(row)
    if kind not in _plainers:
        _plainers[kind] = _plainer(kind)
    return _plainers[kind](row)


def shown_list(rows: list[Any]) -> list[dict[str, Any]]:
    return [shown(row) for row in rows]


def shown_page(rows: list[Any], next_cursor: str | None) -> dict[str, Any]:
    return {"results": shown_list(rows), "next_cursor": next_cursor}


def _plainer(row: type) -> Callable[[Any], dict[str, Any]]:
    hints = get_type_hints(row)
    plain = [(entry.name, _plain(hints[entry.name])) for entry in fields(row)]

    def make(of: Any) -> dict[str, Any]:
        made = {}
        for name, convert in plain:
            value = getattr(of, name)
            made[name] = value if convert is None or value is None else convert(value)
        return made

    return make


def _plain(hint: Any) -> Callable[[Any], Any] | None:
    """How a value that is there is put into JSON; None where it is as it stands."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _plain(_but_none(hint))
    if origin is list:
        if get_origin(arguments[0]) is tuple:
            return lambda rows: [list(map(str, row)) for row in rows]
        convert = _plain(arguments[0])
        return None if convert is None else lambda values: list(map(convert, values))
    if origin is Literal:
        return None
    if origin is not None and issubclass(origin, Mapping):
        return lambda mapping: {str(key): value for key, value in mapping.items()}
    if isinstance(hint, type) and is_dataclass(hint):
        return _plainer(hint)
    return _PLAIN.get(hint)


def _but_none(hint: Any) -> Any:
    rest = [one for one in get_args(hint) if one is not type(None)]
    assert len(rest) == 1, hint
    return rest[0]


def _moment(moment: datetime) -> str:
    """As the framework writes it: `Z` for what it says of UTC."""
    return moment.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


_PLAIN: Mapping[Any, Callable[[Any], Any]] = {
    str: str,
    float: float,
    datetime: _moment,
    UUID: str,
}


def _serializer(name: str, members: dict[str, Any]) -> Output:
    return type(name, (serializers.Serializer,), members)


def _field(hint: Any, *, allow_null: bool = False) -> _Field:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _field(_but_none(hint), allow_null=True)
    if origin is list:
        return _list_field(arguments[0])
    if origin is Literal:
        return serializers.ChoiceField(choices=list(arguments), allow_null=allow_null)
    if origin is not None and issubclass(origin, Mapping):
        return serializers.DictField(allow_null=allow_null)
    if isinstance(hint, type) and is_dataclass(hint):
        return output(hint)(allow_null=allow_null)
    if hint is Any:
        return serializers.JSONField(allow_null=True)
    return _SIMPLE[hint](allow_null=allow_null)


def _list_field(item: Any) -> _Field:
    if get_origin(item) is tuple:
        return serializers.ListField(child=serializers.ListField(child=serializers.CharField()))
    if isinstance(item, type) and is_dataclass(item):
        return output(item)(many=True)
    return serializers.ListField(child=_field(item))
