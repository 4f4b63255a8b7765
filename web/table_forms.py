"""Forms of what is registered of a table. The control plane checks everything again, and its errors
are shown at their fields.
"""

from __future__ import annotations

import uuid
from typing import Any

from django import forms

from controlplane.errors import ControlPlaneError
from controlplane.operations.descriptions.tables import (
    CHANGE_TABLE,
    CREATE_TABLE,
    MASK_COLUMNS,
    REGISTER_TABLE,
    UNREGISTER_TABLE,
)
from controlplane.operations.table_creation.definition import Column, parse_column
from web.refusals import explained, refusal_of
from web.request_forms import RequestForm

EMPTIABLE = ("owner", "tags", "description")
"""Fields that may become empty."""


class PlaceForm(RequestForm):
    """The name and the location of a table."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("slug", "namespace", "location"):
            self.fields[name].required = True

    def refuse(self, error: ControlPlaneError) -> str:
        """Puts the refusal beside its field; what belongs to none is returned, else nothing."""
        field = next((name for name in self.fields if name in error.values), None)
        if "blockers" in error.values:
            return refusal_of(error).text
        if field is None:
            return explained(error)
        # Of a location more is to be said than what was typed: what differs, whose it is.
        says_more = len(error.values) > 1
        self.add_error(field, explained(error) if says_more else refusal_of(error).text)
        return ""


class MaskForm(RequestForm):
    """The masked columns of a table."""

    description = MASK_COLUMNS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["reason"].required = True


class RegisterForm(PlaceForm):
    """A table that exists."""

    description = REGISTER_TABLE


class CreateForm(PlaceForm):
    """A new table with its columns."""

    description = CREATE_TABLE
    idempotency_key = forms.UUIDField(initial=uuid.uuid4)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields[
            "columns"
        ].help_text = "One “name type” per line, as in CREATE TABLE; “not null” requires a value."

    def clean_columns(self) -> list[Column]:
        lines = str(self.cleaned_data["columns"]).splitlines()
        try:
            return [parse_column(line) for line in lines if line.strip(" ,")]
        except ControlPlaneError as error:
            raise forms.ValidationError(explained(error)) from error

    def refuse(self, error: ControlPlaneError) -> str:
        """As of every place, and whatever else the refusal says field by field."""
        by_field = error.values.get("fields")
        if not isinstance(by_field, dict):
            return super().refuse(error)
        for name, sentences in by_field.items():
            for sentence in sentences:
                self.add_error(name, f"{sentence[:1].upper()}{sentence[1:]}.")
        return ""


class SettingsForm(PlaceForm):
    """What is registered of a table."""

    description = CHANGE_TABLE
    idempotency_key = forms.UUIDField(initial=uuid.uuid4)


class UnregisterForm(RequestForm):
    """The confirmation of an unregistration."""

    description = UNREGISTER_TABLE
    idempotency_key = forms.UUIDField(initial=uuid.uuid4)

    def __init__(self, *args: Any, expected_names: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._expected_names = expected_names

    def clean_typed_name(self) -> str:
        typed = str(self.cleaned_data["typed_name"]).strip()
        if typed not in self._expected_names:
            raise forms.ValidationError(f"This is not the table's name, {self._expected_names[0]}.")
        return typed
