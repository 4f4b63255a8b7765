"""Forms of what is registered of a table; the control plane checks everything again, and its
refusals stand beside the field that they speak of.
"""

from __future__ import annotations

import uuid
from typing import Any

from django import forms

from controlplane.errors import ControlPlaneError
from controlplane.tables.names import DESCRIPTION_CHARS_MAX
from web.refusals import explained, refusal_of

REASON_CHARS_MAX = 500
_REASON = forms.CharField(
    max_length=REASON_CHARS_MAX,
    error_messages={
        "required": "Enter a reason (stored in the audit log).",
        "max_length": "Enter at most 500 characters.",
    },
)


LABELS = ("owner", "tags", "description")
"""Fields that may become empty."""


class PlaceForm(forms.Form):
    """What a table is called, and where it lies."""

    name = forms.CharField(max_length=200, required=False, help_text="display name")
    slug = forms.CharField(
        max_length=64,
        help_text="used in addresses: a-z, 0-9 and dashes",
        error_messages={"required": "Enter a slug."},
    )
    namespace = forms.CharField(
        max_length=64,
        help_text="group of tables; roles can be granted per namespace",
        error_messages={"required": "Enter a namespace."},
    )
    location = forms.CharField(
        max_length=700,
        help_text="an absolute path below a table root, or s3://bucket/prefix",
        error_messages={"required": "Enter the location of the table."},
    )

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


class MaskForm(forms.Form):
    """The columns of a table that are masked, one a line."""

    columns = forms.CharField(
        max_length=100_000, required=False, help_text="one per line; fields of structs after dots"
    )
    reason = _REASON

    def clean_columns(self) -> list[str]:
        """Without empty lines."""
        lines = str(self.cleaned_data["columns"]).splitlines()
        return [line.strip() for line in lines if line.strip()]


class RegisterForm(PlaceForm):
    """A table that is there already."""


class CreateForm(PlaceForm):
    """A new table: what it is called, where it is to lie, and what it holds."""

    columns = forms.CharField(
        max_length=200_000,
        help_text="One “name type” per line, as in CREATE TABLE; “not null” requires a value.",
        error_messages={"required": "Enter at least one column with a type."},
    )
    record_key = forms.CharField(
        max_length=2000,
        help_text="columns that identify a row, separated by commas",
        error_messages={"required": "Enter the record key columns."},
    )
    partition_by = forms.CharField(
        max_length=2000,
        required=False,
        help_text="columns, separated by commas; empty: not partitioned",
    )
    ordering = forms.CharField(
        max_length=255,
        required=False,
        help_text="for one key, the row with the highest value wins; empty: the last commit",
    )
    table_type = forms.ChoiceField(
        choices=[
            ("COPY_ON_WRITE", "copy on write: fast reads"),
            ("MERGE_ON_READ", "merge on read: fast writes"),
        ]
    )
    groups = forms.CharField(
        max_length=20_000,
        required=False,
        help_text="JSON, for tables that several streams write; empty: none",
    )
    idempotency_key = forms.UUIDField(initial=uuid.uuid4)

    def clean_columns(self) -> list[tuple[str, str, bool]]:
        """(name, type, is required) of each line."""
        columns = []
        for line in str(self.cleaned_data["columns"]).splitlines():
            name, _, kind = line.strip().rstrip(",").strip().partition(" ")
            if not name:
                continue
            words = kind.strip()
            if is_required := words.lower().endswith(" not null"):
                words = words[: -len(" not null")].strip()
            if not words:
                raise forms.ValidationError(
                    f"Write each column as: name type. “{line.strip()[:60]}” has no type."
                )
            columns.append((name, words, is_required))
        return columns

    def clean_record_key(self) -> list[str]:
        return _listed(self.cleaned_data["record_key"])

    def clean_partition_by(self) -> list[str]:
        return _listed(self.cleaned_data["partition_by"])

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
    """What is to be registered of a table instead of what is."""

    owner = forms.CharField(max_length=150, required=False, help_text="contact for questions")
    tags = forms.CharField(
        max_length=300, required=False, help_text="words to filter by, separated by spaces"
    )
    description = forms.CharField(
        max_length=DESCRIPTION_CHARS_MAX,
        required=False,
        help_text="what the table holds, in one paragraph of at most 500 characters",
    )
    reason = _REASON
    idempotency_key = forms.UUIDField(initial=uuid.uuid4)


class UnregisterForm(forms.Form):
    typed_name = forms.CharField(
        max_length=200, error_messages={"required": "Enter the table name."}
    )
    reason = _REASON
    idempotency_key = forms.UUIDField(initial=uuid.uuid4)

    def __init__(self, *args: Any, expected_names: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._expected_names = expected_names

    def clean_typed_name(self) -> str:
        typed = str(self.cleaned_data["typed_name"]).strip()
        if typed not in self._expected_names:
            raise forms.ValidationError(f"This is not the table's name, {self._expected_names[0]}.")
        return typed


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
