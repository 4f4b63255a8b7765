"""Serializers made from the selectors' dataclasses: the OpenAPI document never differs from the
answers.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
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


def shown(row: object) -> Any:
    return output(type(row))(row).data


def shown_list(rows: list[Any]) -> Any:
    return [shown(row) for row in rows]


def shown_page(rows: list[Any], next_cursor: str | None) -> dict[str, Any]:
    return {"results": shown_list(rows), "next_cursor": next_cursor}


def _serializer(name: str, members: dict[str, Any]) -> Output:
    return type(name, (serializers.Serializer,), members)


def _field(hint: Any, *, allow_null: bool = False) -> _Field:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        rest = [one for one in arguments if one is not type(None)]
        assert len(rest) == 1, hint
        return _field(rest[0], allow_null=True)
    if origin is list:
        return _list_field(arguments[0])
    if origin is Literal:
        return serializers.ChoiceField(choices=list(arguments), allow_null=allow_null)
    if origin is not None and issubclass(origin, Mapping):
        return serializers.DictField(allow_null=allow_null)
    if isinstance(hint, type) and is_dataclass(hint):
        return output(hint)(allow_null=allow_null)
    return _SIMPLE[hint](allow_null=allow_null)


def _list_field(item: Any) -> _Field:
    if get_origin(item) is tuple:
        return serializers.ListField(child=serializers.ListField(child=serializers.CharField()))
    if isinstance(item, type) and is_dataclass(item):
        return output(item)(many=True)
    return serializers.ListField(child=_field(item))
