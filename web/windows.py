"""The stretch of time a timeline page shows, read from its address and written back into it. Pure.

`range=1h` follows the clock; `from=<instant>&to=<instant>` stands still; without either the page
chooses, never "all".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from web.charts import LaneBy
from web.overlays import chosen

RANGES_MS = {
    "15m": 15 * 60_000,
    "1h": 3_600_000,
    "6h": 6 * 3_600_000,
    "24h": 24 * 3_600_000,
    "7d": 7 * 24 * 3_600_000,
    "30d": 30 * 24 * 3_600_000,
}
DEFAULT_MS = RANGES_MS["24h"]
_INSTANT = re.compile(r"\A[0-9]{14}(?:[0-9]{3})?\Z")
_WORD = re.compile(r"\A[a-z_]{1,32}\Z")
_LEAST_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineQuery:
    """What the address asks for; every part of it can be linked."""

    since_ms: int | None
    until_ms: int | None
    range_name: str
    lane_by: LaneBy
    action: str
    state: str
    selected: str
    tab: str
    cursor: str
    overlays: tuple[str, ...]
    """Names of those that are switched on."""

    @property
    def is_following(self) -> bool:
        """Whether the right edge moves with the clock."""
        return self.until_ms is None


def parse_query(texts: Mapping[str, str]) -> TimelineQuery:
    """Whatever cannot be understood is left out: an address typed by hand shows something, not an
    error.
    """
    since_ms, until_ms = _instant_ms(texts.get("from", "")), _instant_ms(texts.get("to", ""))
    if since_ms is None or until_ms is None or until_ms <= since_ms:
        since_ms = until_ms = None
    range_name = texts.get("range", "")
    by = texts.get("by", "")
    return TimelineQuery(
        since_ms=since_ms,
        until_ms=until_ms,
        range_name=range_name if range_name in RANGES_MS and since_ms is None else "",
        lane_by=LaneBy(by) if by in set(LaneBy) else LaneBy.ACTION,
        action=_matching(_WORD, texts.get("action", "")),
        state=_matching(_WORD, texts.get("state", "")),
        selected=_matching(_INSTANT, texts.get("sel", "")),
        tab=_matching(_WORD, texts.get("tab", "")),
        cursor=texts.get("before", "")[:64],
        overlays=chosen(texts),
    )


def bounds(query: TimelineQuery, *, now_ms: int) -> tuple[int, int]:
    """The window in milliseconds; the default one may be narrowed to what it holds by `fitted`."""
    if query.since_ms is not None and query.until_ms is not None:
        return query.since_ms, max(query.until_ms, query.since_ms + _LEAST_MS)
    width = RANGES_MS.get(query.range_name, DEFAULT_MS)
    return now_ms - width, now_ms + width // 40


def fitted(starts_ms: list[int], *, since_ms: int, until_ms: int, now_ms: int) -> tuple[int, int]:
    """A default window with a young table in it: shrink to its instants, so that they are not one
    line.
    """
    if not starts_ms:
        return since_ms, until_ms
    first = max(since_ms, min(starts_ms))
    width = max(_LEAST_MS, now_ms - first)
    return first - width // 30, now_ms + width // 30


def to_instant(milliseconds: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=max(0, milliseconds))
    return moment.strftime("%Y%m%d%H%M%S") + f"{milliseconds % 1000:03d}"


def neighbours(since_ms: int, until_ms: int) -> dict[str, dict[str, str]]:
    """`from` and `to` of the windows before, after, nearer and wider."""
    width = until_ms - since_ms
    shifted = {
        "earlier": (since_ms - width * 3 // 4, until_ms - width * 3 // 4),
        "later": (since_ms + width * 3 // 4, until_ms + width * 3 // 4),
        "wider": (since_ms - width, until_ms + width),
    }
    return {
        name: {"from": to_instant(since), "to": to_instant(until)}
        for name, (since, until) in shifted.items()
    }


def _instant_ms(text: str) -> int | None:
    if not _INSTANT.match(text):
        return None
    try:
        moment = datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp()) * 1000 + int(text[14:] or 0)


def _matching(grammar: re.Pattern[str], text: str) -> str:
    return text if grammar.match(text) else ""
