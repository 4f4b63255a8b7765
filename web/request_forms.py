"""Forms made of the descriptions of requests. The control plane checks every value again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar

from django import forms

from controlplane.operations.descriptions.field import TYPED, Description, Field, FieldType
from web.option_lines import options_of

LINES_CHARS_MAX = 10_000


class OptionLines(forms.CharField):
    """Options, one `key=value` a line."""

    def clean(self, value: Any) -> dict[str, str]:
        """Return the options by key. Raises ValidationError."""
        return options_of(str(super().clean(value)))


class JsonObject(forms.CharField):
    """A JSON object; an empty one for no text."""

    def clean(self, value: Any) -> dict[str, Any]:
        """Return the object. Raises ValidationError."""
        try:
            parsed = json.loads(str(super().clean(value)).strip() or "{}")
        except ValueError as error:
            raise forms.ValidationError(f"Invalid JSON: {error}.") from error
        if not isinstance(parsed, dict):
            raise forms.ValidationError("Enter a JSON object: {...}.")
        return parsed


class TextList(forms.CharField):
    """Texts with a separator between them, as a list without empty ones."""

    def __init__(self, *, separator: str, **words: Any) -> None:
        super().__init__(**words)
        self._separator = separator

    def clean(self, value: Any) -> list[str]:
        """Return the texts. Raises ValidationError."""
        parts = str(super().clean(value)).split(self._separator)
        return [part.strip() for part in parts if part.strip()]


class RequestForm(forms.Form):
    """A form with the fields of a request; a subclass may have more."""

    description: ClassVar[Description]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields = {**form_fields(self.description.all_fields()), **self.fields}

    def group(self, heading: str) -> list[forms.BoundField]:
        """Return the fields of this heading, in the order of the description."""
        fields = self.description.all_fields()
        names = [field.form_name for field in fields if field.group == heading]
        return [self[name] for name in names if name in self.fields]


def form_fields(fields: Iterable[Field]) -> dict[str, forms.Field]:
    """Return the fields of a form, by their names there."""
    return {field.form_name: to_form_field(field) for field in fields if field.form_name}


def to_form_field(field: Field) -> forms.Field:
    """Return the form's field: it checks what a form can, and has label and help."""
    errors = {"required": field.refusal} if field.refusal else {}
    has_initial = isinstance(field.default, str | int) and field.default != ""
    words: dict[str, Any] = {
        "label": field.label,
        "help_text": field.help + TYPED.get(field.type, ""),
        "required": field.is_needed,
        "initial": field.default if has_initial else None,
    }
    if field.choices and field.type is not FieldType.OPTIONS:
        choices = [(choice.value, choice.label or choice.value) for choice in field.choices]
        is_open = any(value == "" for value, _ in choices)
        words["required"] = not is_open
        if field.type is FieldType.NUMBER:
            return forms.TypedChoiceField(coerce=int, choices=choices, **words)
        return forms.ChoiceField(choices=choices, **words)
    match field.type:
        case FieldType.NUMBER:
            errors.setdefault("required", "Enter a whole number.")
            errors["min_value"] = f"Enter at least {field.least or 0:,}."
            errors["max_value"] = f"Enter at most {field.most or 0:,}."
            words["required"] = has_initial or field.is_needed
            return forms.IntegerField(
                min_value=field.least, max_value=field.most, error_messages=errors, **words
            )
        case FieldType.FLAG:
            return forms.BooleanField(**{**words, "required": False})
        case FieldType.LIST | FieldType.NAMES:
            words |= {"required": bool(field.least), "error_messages": errors}
            words["max_length"] = (field.chars_max or 1) * (field.most or 1)
            if field.type is FieldType.NAMES:
                return TextList(separator=",", **words)
            return TextList(separator="\n", widget=forms.Textarea, **words)
        case FieldType.MOMENT:
            errors = {**errors, "invalid": "Enter a time as 2026-01-31 14:00."}
            return forms.DateTimeField(error_messages=errors, **words)
        case FieldType.OBJECT:
            return JsonObject(max_length=field.chars_max, widget=forms.Textarea, **words)
        case FieldType.OPTIONS:
            words["required"] = False  # The parts have fields of their own.
            return OptionLines(max_length=LINES_CHARS_MAX, widget=forms.Textarea, **words)
        case _:
            errors["max_length"] = f"Enter at most {field.chars_max} characters."
            is_lines = field.type in (FieldType.LINES, FieldType.ROWS) or field.name == "reason"
            return forms.CharField(
                max_length=field.chars_max,
                widget=forms.Textarea if is_lines else forms.TextInput,
                error_messages=errors,
                **words,
            )
