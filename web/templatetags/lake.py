"""How the dashboard writes ages, sizes, counts and names: filters that return text.

Everything here is given untrusted text and returns plain strings; nothing is marked safe. Templates
have these without loading them.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from django import template
from django.utils.http import urlencode

from controlplane.mirror.density import lane_name

register = template.Library()


@register.filter
def age(seconds: float | timedelta | None, none: str = "never") -> str:
    """`4 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`; `none` for None."""
    if seconds is None:
        return none
    total = int(seconds.total_seconds() if isinstance(seconds, timedelta) else seconds)
    sign, total = ("-" if total < 0 else ""), abs(total)
    if total < 60:
        return f"{sign}{total} s"
    for unit, size, smaller, smaller_size in (
        ("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1),
    ):  # fmt: skip
        if total >= size:
            rest = total % size // smaller_size
            return f"{sign}{total // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    raise AssertionError(total)


def instant_age_s(instant: str, now: datetime) -> float:
    """Seconds since an instant; one that is none is just now."""
    at = time_of(instant)
    return (now - at).total_seconds() if at else 0.0


@register.filter
def until(at: datetime | None) -> str:
    """`in 4 min`, or how long ago; the browser counts on."""
    if at is None:
        return ""
    left = (at - datetime.now(UTC)).total_seconds()
    return f"in {age(left)}" if left > 0 else f"{age(-left)} ago"


@register.filter
def milliseconds(at: datetime | None) -> int:
    return int(at.timestamp() * 1000) if at else 0


@register.filter
def took(milliseconds: float | None) -> str:
    if milliseconds is None:
        return ""
    if milliseconds < 1_000:
        return f"{int(milliseconds)} ms"
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 60_000 else age(milliseconds / 1000)


@register.filter
def size(bytes_count: float | None) -> str:
    """Decimal units: `812 B`, `4.1 kB`, `1.3 GB`."""
    if bytes_count is None:
        return ""
    value = float(bytes_count)
    if value < 1000:
        return f"{int(value)} B"
    for unit in ("kB", "MB", "GB", "TB", "PB"):
        value /= 1000
        if value < 999.95 or unit == "PB":
            return f"{value:.1f} {unit}"
    raise AssertionError(bytes_count)


@register.filter
def count(number: float | None) -> str:
    """Thousands set apart by a thin space that does not break."""
    # A template hands on an empty text for what is not there.
    return f"{number:,.0f}".replace(",", "\u202f") if isinstance(number, int | float) else ""


@register.filter
def amount(number: float) -> str:
    """As people write it: `120`, `0.5`."""
    return f"{number:.0f}" if number == int(number) else str(number)


@register.filter
def counted(number: float | None, name: str) -> str:
    """`1 file`, `1 204 files`."""
    return f"{count(number)} {name}{'' if number == 1 else 's'}"


@register.filter
def percent(number: float | None) -> str:
    if number is None:
        return ""
    # Never round to a full hundred: one missing row is what the reader looks for.
    shown = min(number, 99.9) if number < 100 else number
    return f"{shown:.1f}%".replace(".0%", "%")


@register.filter
def lag(seconds: float) -> str:
    """The lag of event time behind the clock; sources may stamp their events ahead of it."""
    return f"{age(-seconds)} ahead" if seconds <= -1 else age(max(0, seconds))


@register.filter
def duration(row: Any) -> str:
    """From requested to completed, or to when it was taken back; a point has none."""
    if row.ended_ms is None or row.is_point:
        return ""
    return took(max(0, row.ended_ms - row.requested_ms))


@register.filter
def middle(text: object, length: int = 28) -> str:
    """Long ids keep both ends, which is where they differ."""
    value = str(text)
    if len(value) <= length:
        return value
    head = (length - 1) // 2
    return f"{value[:head]}…{value[-(length - 1 - head) :]}"


@register.filter
def pretty_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@register.filter
def mode(name: object) -> str:
    """`NON_BLOCKING_CONCURRENCY_CONTROL` is `non-blocking` to a person."""
    text = str(name or "").lower().replace("_concurrency_control", "").replace("_", " ")
    return "non-blocking" if text == "non blocking" else text


@register.filter
def words(name: object) -> str:
    return str(name).replace("_", " ")


@register.filter
def parts(text: object) -> list[str]:
    """Pieces of a long option, after each of which its line may break."""
    return [piece for piece in re.split(r"(?<=[.=])", str(text)) if piece]


@register.filter
def in_words(names: object) -> str:
    """A comma-separated list with room to breathe."""
    return ", ".join(str(names or "").split(","))


@register.filter
def basename(path: object) -> str:
    return str(path).rpartition("/")[2]


@register.filter
def lane(row: Any) -> str:
    """What an instant is to a person: a finished compaction is named `commit` on storage."""
    return lane_name(row.action, row.operation_type)


@register.filter
def operation(row: Any) -> str:
    """What kind of write it was, where the lane does not say so already."""
    write_kind = str(row.operation_type).replace("_", " ").lower()
    is_in_lane = lane_name(row.action, row.operation_type) != row.action or write_kind == row.action
    return "" if is_in_lane else write_kind


@register.filter
def divided_by(value: float | None, by: float) -> float:
    return (value or 0) / by


@register.simple_tag(takes_context=True)
def query(context: template.Context, **changes: object) -> str:
    """The page's query string with some values changed; an empty value removes the key."""
    parameters = dict(context["request"].GET.lists())
    for key, value in changes.items():
        if value is None or value == "":
            parameters.pop(key, None)
        else:
            parameters[key] = [str(value)]
    return f"?{urlencode(parameters, doseq=True)}"


def time_of(value: object) -> datetime | None:
    """What a datetime, milliseconds or an instant's digits say; None for what is no time."""
    match value:
        case datetime():
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        case int() | float():
            return datetime.fromtimestamp(value / 1000, UTC)
        case str() if value.isdigit() and len(value) in (14, 17):
            try:
                # `strptime` takes ten times as long, and a page has hundreds.
                day = int(value[:4]), int(value[4:6]), int(value[6:8])
                clock = int(value[8:10]), int(value[10:12]), int(value[12:14])
                return datetime(*day, *clock, 1000 * int(value[14:] or 0), tzinfo=UTC)
            except ValueError:
                return None
        case _:
            return None
