"""Instant times as a model field and as a serializer field: 17 digits, or 14 in tables of old
writers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.core.validators import RegexValidator
from django.db import migrations, models
from rest_framework import serializers

INSTANT_TIME = re.compile(r"\A[0-9]{14}(?:[0-9]{3})?\Z")


if TYPE_CHECKING:
    _Text = models.CharField[str, str]
    _OptionalText = models.CharField[str | None, str | None]
else:
    _Text = _OptionalText = models.CharField


class _InstantTime:
    def __init__(self, **options: Any) -> None:
        options["max_length"] = 17
        options.setdefault("validators", [RegexValidator(INSTANT_TIME, "not an instant time")])
        super().__init__(**options)

    def deconstruct(self) -> Any:
        name, path, positional, options = super().deconstruct()  # type: ignore[misc]
        options.pop("max_length", None)
        options.pop("validators", None)
        return name, path, positional, options


class InstantTimeField(_InstantTime, _Text):
    """Text, because comparing two instants as text compares them in time."""


class OptionalInstantTimeField(_InstantTime, _OptionalText):
    """The same where there may be none: two classes only because types cannot say it in one."""


class InstantTimeSerializerField(serializers.RegexField):
    def __init__(self, **options: Any) -> None:
        super().__init__(INSTANT_TIME, **options)


class GiveDefault(migrations.AlterField):
    """A migration that gives a column the default of its model in the database.

    Only in PostgreSQL, where two versions of the program may run next to each other. SQLite would
    copy the whole table, and forget which keys deleted rows had.
    """

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
