"""The verdict on a commit's schema, as its metadata tells it: what a page draws the case from."""

from __future__ import annotations

from typing import Any

from workers.json_text import read_json

_FIELDS_KEPT = 100
_TEXT_MAX = 500
_TEXTS = (
    "mode",
    "case",
    "start_instant",
    "validation_instant",
    "writer_fingerprint",
    "schema_fingerprint",
    "warning",
)
_FIELD_TEXTS = ("path", "kind", "by", "before", "after")


def schema_verdict(text: str | None) -> dict[str, Any]:
    """`{"schema_verdict": ...}`, or nothing where a commit carries none that can be read.

    Whoever can write to the table wrote this: keys are chosen here, values bounded.
    """
    try:
        written = read_json(text or "")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(written, dict):
        return {}
    verdict: dict[str, Any] = {key: _text(written[key]) for key in _TEXTS if written.get(key)}
    if isinstance(written.get("scenario"), int):
        verdict["scenario"] = written["scenario"]
    fields = written.get("fields")
    verdict["fields"] = [
        {key: _text(one.get(key)) for key in _FIELD_TEXTS}
        for one in (fields if isinstance(fields, list) else [])[:_FIELDS_KEPT]
        if isinstance(one, dict)
    ]
    return {"schema_verdict": verdict}


def _text(value: object) -> str | None:
    """PostgreSQL stores no NUL."""
    return None if value is None else str(value)[:_TEXT_MAX].replace("\x00", "")
