"""The lists of a page as files: CSV for spreadsheets, JSON lines for programs, Parquet. Each is the
list of the API with the page's filters, so it has the same roles, masks and rows as that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from controlplane.row_files import FORMATS
from web.windows import bounds, parse_query, to_instant

_NONE: Final[Mapping[str, str]] = {}
_WORDS: Final = {"csv": "CSV", "jsonl": "JSON lines", "parquet": "Parquet"}


@dataclass(frozen=True, slots=True)
class PageList:
    """One list of a page."""

    title: str
    name: str
    """Of its address in the API."""
    filters: Mapping[str, str]
    """What the page's address calls a filter: what the API calls it."""
    needs: str = ""
    """A filter without which the page shows another thing."""


@dataclass(frozen=True, slots=True)
class ListFiles:
    title: str
    links: tuple[tuple[str, str], ...]
    """Words and address of each format."""


_INSTANTS = PageList("Instants", "instants", {"action": "actions", "state": "states"})
_CONFLICTS = PageList(
    "Conflicts", "conflicts", {name: name for name in ("kind", "detected", "writer")}
)
_WRITERS = PageList("Writers", "writers", _NONE)
_OF_SINK: Final = {"sink": ""}
LISTS: Final[Mapping[str, tuple[PageList, ...]]] = {
    "home": (PageList("Alerts", "alerts", _NONE),),
    "approvals": (PageList("Approvals", "approvals", _NONE),),
    "approval-rules": (PageList("Approval rules", "approval_rules", {"namespace": "namespace"}),),
    "alerts": (PageList("Alerts", "alerts", _NONE),),
    "alert-rules": (PageList("Alert rules", "alert_rules", _NONE),),
    "thresholds": (PageList("Thresholds", "thresholds", {"namespace": "namespace"}),),
    "channels": (
        PageList("Channels", "channels", _NONE),
        PageList("Messages", "channel_messages", _NONE),
    ),
    "connections": (PageList("Connections", "connections", _NONE),),
    "access": (PageList("Roles", "grants", _NONE),),
    "access-rows": (PageList("Row access", "row_grants", _NONE),),
    "people": (
        PageList("Users", "users", {"q": "search", "after": "after"}),
        PageList("Groups", "groups", _NONE),
    ),
    "tokens": (PageList("API tokens", "tokens", _NONE),),
    "sql": (PageList("Saved queries", "saved_queries", _NONE),),
    "overview": (PageList("Health checks", "table_health", _NONE), _INSTANTS),
    "live": (_WRITERS, _CONFLICTS, _INSTANTS),
    "timeline": (_INSTANTS,),
    "writers": (_WRITERS, PageList("Active and ended writes", "writers_activity", _NONE)),
    "locks": (PageList("Lock waits", "lock_waits", _NONE),),
    "markers": (
        PageList("Marker directories", "marker_directories", _NONE),
        PageList("Markers by kind", "markers", _NONE),
    ),
    "conflicts": (_CONFLICTS,),
    "files": (
        PageList(
            "File groups",
            "file_groups",
            {"partition": "partition", "q": "search", "order": "order"},
        ),
        PageList("Partitions", "partitions", _NONE),
    ),
    "streams": (
        PageList("Stream batches", "stream_rounds", _NONE),
        PageList("Stream commits", "stream_commits", _NONE),
    ),
    "sinks": (
        PageList("Sinks", "sinks", _NONE),
        PageList("Participants", "sink_participants", _OF_SINK, "sink"),
        PageList("Transactions", "sink_transactions", _OF_SINK, "sink"),
        PageList("Messages", "sink_trace", _OF_SINK, "sink"),
        PageList("Dead letters", "sink_letters", _OF_SINK, "sink"),
    ),
    "schema": (PageList("Schemas", "schemas", _NONE),),
    "services": (PageList("Service runs", "service_runs", _NONE),),
    "schedules": (PageList("Schedules", "table_schedules", _NONE),),
    "savepoints": (PageList("Savepoints", "savepoints", _NONE),),
    "table-thresholds": (PageList("Thresholds", "table_thresholds", _NONE),),
    "table-approval-rules": (PageList("Approval rules", "table_approval_rules", _NONE),),
}
"""By the name of a page's address. *Tables*, *Operations*, *Audit*, *Data* and the answer of a
statement have files of their own, beside the list.
"""


def page_files(request: HttpRequest) -> list[ListFiles]:
    """The files of the page at hand; none where its lists have no file."""
    match = request.resolver_match
    page = match.url_name if match and not match.namespace else None
    if match is None or page is None:
        return []
    given = {name: text for name in request.GET if (text := request.GET[name])}
    wanted = [shown for shown in LISTS.get(page, ()) if not shown.needs or shown.needs in given]
    return [_files(shown, match.kwargs, given) for shown in wanted]


def _files(shown: PageList, parts: Mapping[str, str], given: Mapping[str, str]) -> ListFiles:
    of_sink = {"sink_id": given["sink"]} if shown.needs == "sink" else {}
    path = reverse(f"api:{shown.name}", kwargs={**parts, **of_sink})
    query = {
        theirs: given[ours] for ours, theirs in shown.filters.items() if theirs and ours in given
    }
    if shown is _INSTANTS:
        query |= _window(given)
    links = [(kind, urlencode({**query, "file_format": kind})) for kind in FORMATS]
    return ListFiles(shown.title, tuple((_WORDS[kind], f"{path}?{text}") for kind, text in links))


def _window(given: Mapping[str, str]) -> dict[str, str]:
    """The window that was chosen; all instants where none was."""
    query = parse_query(given)
    if query.is_following and not query.range_name:
        return {}
    since_ms, until_ms = bounds(query, now_ms=int(timezone.now().timestamp() * 1000))
    return {"since": to_instant(since_ms), "until": to_instant(until_ms)}
