"""Bodies of requests, made of their descriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from controlplane.api.outputs import output
from controlplane.api.parsing import Strict, validated
from controlplane.api.requests import IDEMPOTENCY_KEY, idempotency_key
from controlplane.fields import InstantTimeSerializerField
from controlplane.operations.descriptions.field import LEFT_OUT, Description, Field, FieldType
from controlplane.operations.requesting import Given

_KEY = OpenApiParameter(IDEMPOTENCY_KEY, str, OpenApiParameter.HEADER)
_bodies: dict[str, type[RequestBody]] = {}


class RequestBody(Strict):
    """The fields of one request. Other fields are rejected."""

    description: ClassVar[Description]

    def get_fields(self) -> dict[str, Any]:
        """Return the fields by name, in the order of the description."""
        return {
            field.name: to_serializer_field(field)
            for field in self.description.fields
            if field.is_in_body
        }


def build_body(description: Description) -> type[RequestBody]:
    """Return the serializer of the request; requests with the same body share it."""
    members = {"description": description, "__doc__": description.purpose}
    name = description.body
    return _bodies.setdefault(name, type(name, (RequestBody,), members))


def takes(
    description: Description, operation_id: str, answer: type, *, status: int = 202
) -> Callable[..., Any]:
    """Decorate the method of a view that answers the request: its part of the OpenAPI document."""
    return extend_schema(
        operation_id=operation_id,
        request=build_body(description),
        parameters=[_KEY] if description.takes_key else None,
        responses={status: output(answer)},
    )


def read_body(description: Description, request: Request) -> dict[str, Any]:
    """Return the values of the body. Raises ValidationError."""
    return validated(build_body(description), request)


def pop_given(request: Request, body: dict[str, Any]) -> Given:
    """Take the confirmation out of the body, and add the request's key. Raises InvalidRequest."""
    return Given(
        reason=body.pop("reason", ""),
        typed_name=body.pop("table_name", ""),
        plan_hash=body.pop("plan_hash", ""),
        idempotency_key=idempotency_key(request),
    )


def to_serializer_field(field: Field) -> serializers.Field[Any, Any, Any, Any]:
    """Return the serializer's field."""
    options: dict[str, Any] = {"help_text": field.help or None, "required": field.is_needed}
    if not field.is_needed and field.default is not LEFT_OUT:
        options["default"] = field.default
    texts: dict[str, Any] = {"max_length": field.chars_max, "allow_blank": field.may_be_blank}
    counts: dict[str, Any] = {"min_length": field.least, "max_length": field.most}
    item: serializers.Field[Any, Any, Any, Any] = serializers.CharField(**texts)
    if field.choices:
        item = serializers.ChoiceField(choices=field.values)
        if field.type is not FieldType.OPTIONS:
            return serializers.ChoiceField(choices=field.values, **options)
    match field.type:
        case FieldType.NUMBER:
            return serializers.IntegerField(min_value=field.least, max_value=field.most, **options)
        case FieldType.FLAG:
            return serializers.BooleanField(**options)
        case FieldType.INSTANT:
            return InstantTimeSerializerField(**options)
        case FieldType.ID:
            return serializers.UUIDField(**options)
        case FieldType.LIST | FieldType.NAMES:
            return serializers.ListField(child=item, **counts, **options)
        case FieldType.ROWS:
            assert field.item is not None, field
            return serializers.ListField(child=build_body(field.item)(), **counts, **options)
        case FieldType.OPTIONS:
            return serializers.DictField(child=item, **options)
        case FieldType.OBJECT:
            return serializers.DictField(**options)
        case _:
            return serializers.CharField(**texts, **options)
