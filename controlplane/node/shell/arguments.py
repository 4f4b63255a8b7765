"""Arguments of `manage.py`, made of the descriptions of requests."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Mapping
from typing import Any

from django.core.management.base import CommandError

from controlplane.operations.descriptions.field import PLAN_HASH, REASON, Field, FieldType

_TYPES = {FieldType.NUMBER: int}


def add_fields(parser: ArgumentParser, fields: Iterable[Field]) -> None:
    """Add the argument of each field that the shell has one for."""
    for field in fields:
        if field.flag:
            _add_field(parser, field)


def add_confirmation(parser: ArgumentParser) -> None:
    """Add the words that carry a plan out."""
    add_yes(parser)
    add_fields(parser, (PLAN_HASH, REASON))


def add_yes(parser: ArgumentParser) -> None:
    """Add the switch without which a plan is only shown."""
    parser.add_argument("--yes", action="store_true", help="carry the plan out")


def read_texts(options: Mapping[str, Any], fields: Iterable[Field]) -> dict[str, str]:
    """Return the values of these arguments by their keys, without empty ones."""
    texts = {field.body_key: options.get(_destination(field)) for field in fields if field.flag}
    return {key: str(text) for key, text in texts.items() if text}


def parse_pair(text: str) -> tuple[str, str]:
    """Return the key and the value of a `--set`. Raises CommandError."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise CommandError(f"--set takes KEY=VALUE, not {text!r}")
    return key, value


def _add_field(parser: ArgumentParser, field: Field) -> None:
    words: dict[str, Any] = {"help": _help(field)}
    if field.choices:
        words["choices"] = [value for value in field.values if value] or None
    if field.type is FieldType.FLAG:
        words["action"] = "store_true"
    elif field.type is FieldType.LIST:
        words |= {"action": "append", "default": [], "metavar": field.label.upper()}
    else:
        # Options have defaults of their own.
        has_default = isinstance(field.default, str | int) and not field.key
        words["default"] = field.default if has_default else None if field.key else ""
        words["type"] = _TYPES.get(field.type, str)
    if not field.flag.startswith("-"):
        words["nargs"] = None if field.is_needed else "?"
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
    return f"{field.help or field.label}{key}{default}".replace("%", "%%")
