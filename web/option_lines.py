"""Options as people type them: one `key=value` a line."""

from __future__ import annotations

from django import forms


def options_of(lines: str) -> dict[str, str]:
    """By key, without the spaces around. Raises ValidationError for a line without a `=`."""
    options: dict[str, str] = {}
    for line in lines.splitlines():
        if not line.strip():
            continue
        key, equals, text = line.partition("=")
        if not equals or not key.strip():
            raise forms.ValidationError(
                f"Write each option as key=value. “{line.strip()[:60]}” is not an option."
            )
        options[key.strip()] = text.strip()
    return options
