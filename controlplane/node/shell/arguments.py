"""Arguments of `manage.py`, made of the descriptions of requests."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from argparse import _ActionsContainer as Arguments
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError

from controlplane.operations.descriptions.field import PLAN_HASH, REASON, TYPED, Field, FieldType
from workers.loading.options import comma_names


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object; an empty one for no text. Raises ArgumentTypeError."""
    try:
        value = json.loads(text or "{}")
    except ValueError as error:
        raise ArgumentTypeError(f"must be JSON: {error}") from error
    if not isinstance(value, dict):
        raise ArgumentTypeError("must be a JSON object: {...}")
    return value


_TYPES: Mapping[FieldType, Callable[[str], Any]] = {
    FieldType.NUMBER: int,
    FieldType.NAMES: comma_names,
    FieldType.ID: UUID,
    FieldType.OBJECT: parse_object,
}


def add_fields(parser: Arguments, fields: Iterable[Field]) -> None:
    """Add the argument of each field that the shell has one for."""
    for field in fields:
        if field.flag:
            _add_field(parser, field)


def add_confirmation(parser: Arguments) -> None:
    """Add the words that carry a plan out."""
    add_yes(parser)
    add_fields(parser, (PLAN_HASH, REASON))


def add_yes(parser: Arguments) -> None:
    """Add the switch without which a plan is only shown."""
    parser.add_argument("--yes", action="store_true", help="run the plan")


def read_texts(options: Mapping[str, Any], fields: Iterable[Field]) -> dict[str, str]:
    """Return the values of these arguments by their keys, without empty ones."""
    texts = {field.body_key: options.get(_destination(field)) for field in fields if field.flag}
    return {key: str(text) for key, text in texts.items() if text}


def parse_pair(text: str) -> tuple[str, str]:
    """Return the key and the value of a `--set`. Raises CommandError."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise CommandError(f"--set must be KEY=VALUE, not {text!r}")
    return key, value


def _add_field(parser: Arguments, field: Field) -> None:
    words: dict[str, Any] = {"help": _help(field)}
    if field.choices:
        words["choices"] = [value for value in field.values if value] or None
    if field.type is FieldType.FLAG:
        words["action"] = "store_true"
    elif field.type is FieldType.LIST:
        words |= {"default": [], "metavar": field.label.upper()}
        words |= {"action": "append"} if field.flag.startswith("-") else {"nargs": "*"}
    else:
        # Options have defaults of their own.
        has_default = isinstance(field.default, str | int) and not field.key
        is_text = not field.key and field.type is not FieldType.ID
        words["default"] = field.default if has_default else "" if is_text else None
        words["type"] = _TYPES.get(field.type, str)
    if not field.flag.startswith("-"):
        words.setdefault("nargs", None if field.is_needed else "?")
    elif field.is_needed:
        words["required"] = True
    parser.add_argument(field.flag, **words)


def _destination(field: Field) -> str:
    return field.flag.lstrip("-").replace("-", "_")


def _help(field: Field) -> str:
    """The help, then the option's key and the default; `%` is argparse's own sign."""
    key = f" ({field.key})" if field.key else ""
    default = (
        f" [{field.default}]" if isinstance(field.default, str | int) and field.default else ""
    )
    typed = "" if field.type is FieldType.LIST else TYPED.get(field.type, "")
    return f"{field.help or field.label}{typed}{key}{default}".replace("%", "%%")
