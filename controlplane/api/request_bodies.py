"""Bodies of requests, made of their descriptions."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers

from controlplane.api.parsing import Strict
from controlplane.fields import InstantTimeSerializerField
from controlplane.operations.descriptions.field import LEFT_OUT, Description, Field, FieldType


class RequestBody(Strict):
    """The fields of one request. A field that is not listed is refused."""

    description: ClassVar[Description]

    def get_fields(self) -> dict[str, Any]:
        """Return the fields by name, in the order of the description."""
        return {
            field.name: to_serializer_field(field)
            for field in self.description.fields
            if field.is_in_body
        }


def to_serializer_field(field: Field) -> serializers.Field[Any, Any, Any, Any]:
    """Return the serializer's field."""
    options: dict[str, Any] = {"help_text": field.help or None, "required": field.is_needed}
    if not field.is_needed and field.default is not LEFT_OUT:
        options["default"] = field.default
    if field.choices:
        return serializers.ChoiceField(choices=field.values, **options)
    texts: dict[str, Any] = {"max_length": field.chars_max, "allow_blank": field.may_be_blank}
    counts: dict[str, Any] = {"min_length": field.least, "max_length": field.most}
    match field.type:
        case FieldType.NUMBER:
            return serializers.IntegerField(min_value=field.least, max_value=field.most, **options)
        case FieldType.FLAG:
            return serializers.BooleanField(**options)
        case FieldType.INSTANT:
            return InstantTimeSerializerField(**options)
        case FieldType.LIST:
            return serializers.ListField(child=serializers.CharField(**texts), **counts, **options)
        case FieldType.OPTIONS:
            return serializers.DictField(child=serializers.CharField(**texts), **options)
        case FieldType.OBJECT:
            return serializers.DictField(**options)
        case _:
            return serializers.CharField(**texts, **options)
