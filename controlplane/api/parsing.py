"""Reading a request: validated input as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

from controlplane.api.selection import sort_choices
from controlplane.errors import InvalidRequest


class Strict(serializers.Serializer[Any]):
    """Refuses fields that it does not know: an ignored misspelling does harm hours later."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) and (unknown := sorted(set(data) - set(self.fields))):
            raise serializers.ValidationError(dict.fromkeys(unknown, "unknown field"))
        return super().to_internal_value(data)


def validated(serializer: type[Strict], request: Request) -> dict[str, Any]:
    """The body's values. Raises ValidationError."""
    return _checked(serializer(data=request.data))


def validated_query(serializer: type[Strict], request: Request) -> dict[str, Any]:
    """The query's values; a repeated parameter counts once, lists are separated by commas."""
    return _checked(serializer(data=request.query_params.dict()))


class SortKey(serializers.ChoiceField):
    """`key`, or `-key` for the greatest first; None for the list's own order."""

    def __init__(self, keys: Iterable[str]) -> None:
        known = list(keys)
        super().__init__(
            choices=sort_choices(known),
            required=False,
            default=None,
            help_text=f"By this field; `-{known[0]}` has the greatest first.",
            error_messages={"invalid_choice": f"sorted by {', '.join(known)} alone"},
        )


class CommaList(serializers.CharField):
    """`a,b,c`, each item from a fixed set."""

    def __init__(self, *, choices: list[str], **options: Any) -> None:
        self._choices = choices
        super().__init__(**options)

    def to_internal_value(self, data: Any) -> Any:
        items = [item for item in str(super().to_internal_value(data)).split(",") if item]
        if unknown := sorted(set(items) - set(self._choices)):
            raise serializers.ValidationError(f"unknown: {', '.join(unknown)[:80]}")
        return items


def _checked(serializer: Strict) -> dict[str, Any]:
    serializer.is_valid(raise_exception=True)
    values = serializer.validated_data
    if not isinstance(values, dict):
        raise InvalidRequest("the body must be a JSON object")
    return values
