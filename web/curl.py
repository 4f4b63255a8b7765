"""This page as a request of the API: for each page that has a twin there, the command that asks for
the same. Who has the token asks as its owner. Pages whose rows come behind the frame have the
command below their rows, because a script changes what these show.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

_TOKEN: Final = "Authorization: Token $SLUICE_TOKEN"  # noqa: S105 - the name of a variable
_SAME: Final[Mapping[str, str]] = {}
_OF_TABLES: Final = {"q": "search", "namespace": "namespace"}
_OF_OPERATIONS: Final = {
    "table": "table", "kind": "kinds", "state": "states", "who": "who", "q": "text"
}  # fmt: skip
_OF_AUDIT: Final = {name: name for name in ("who", "what", "object", "result", "request_id")}
TWINS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "home": ("home", _SAME),
    "tables": ("tables", _OF_TABLES),
    "operations": ("operations", _OF_OPERATIONS),
    "operation": ("operation", _SAME),
    "approvals": ("approvals", _SAME),
    "approval": ("approval", _SAME),
    "alerts": ("alerts", _SAME),
    "alert-rules": ("alert_rules", _SAME),
    "thresholds": ("thresholds", _SAME),
    "channels": ("channels", _SAME),
    "connections": ("connections", _SAME),
    "audit": ("audit", _OF_AUDIT),
    "audit-row": ("audit_event", _SAME),
    "access": ("grants", _SAME),
    "access-rows": ("row_grants", _SAME),
    "people": ("users", _SAME),
    "tokens": ("tokens", _SAME),
    "overview": ("table_health", _SAME),
    "live": ("table", _SAME),
    "writers": ("writers_activity", _SAME),
    "locks": ("lock", _SAME),
    "markers": ("marker_directories", _SAME),
    "marker-tree": ("marker_tree", _SAME),
    "conflicts": ("conflicts", _SAME),
    "conflict": ("conflict", _SAME),
    "timeline": ("instants", _SAME),
    "files": ("file_groups", _SAME),
    "streams": ("streams", _SAME),
    "sinks": ("sinks", _SAME),
    "schema": ("schemas", _SAME),
    "services": ("services", _SAME),
    "schedules": ("table_schedules", _SAME),
    "schedule": ("schedule", _SAME),
    "all-schedules": ("schedules", _SAME),
    "trends": ("trends", {"days": "days"}),
    "savepoints": ("savepoints", _SAME),
    "settings": ("table", _SAME),
    "effective-settings": ("table_settings", _SAME),
    "masks": ("masked_columns", _SAME),
    "approval-rules": ("approval_rules", _SAME),
    "table-approval-rules": ("table_approval_rules", _SAME),
    "table-thresholds": ("table_thresholds", _SAME),
}
"""By the name of a page's address: that of the API, and what its query calls what the page's does.
What is not named there, such as a place in the list, stays with the page.
"""
_CALLED_THERE: Final = {
    ("marker_tree", "instant"): "requested_at",
    ("conflict", "instant"): "requested_at",
    ("approval", "operation_id"): "approval_id",
}
"""What the API's address calls a part of the page's."""
_NOT_NAMED: Final = frozenset({("operation", "slug")})
"""Parts of a page's address that the one of the API does without."""


def twin_of(request: HttpRequest) -> str:
    """The path and query of the same over the API; empty for a page that has no twin there."""
    match = request.resolver_match
    page = match.url_name if match and not match.namespace else None
    if match is None or page is None or page not in TWINS:
        return ""
    name, renamed = TWINS[page]
    given = {theirs: request.GET[ours] for ours, theirs in renamed.items() if request.GET.get(ours)}
    named = {
        _CALLED_THERE.get((name, key), key): part
        for key, part in match.kwargs.items()
        if (name, key) not in _NOT_NAMED
    }
    path = reverse(f"api:{name}", kwargs=named)
    return f"{path}?{urlencode(given)}" if given else path


def as_curl(request: HttpRequest) -> str:
    """A line for a shell that has the token in a variable; empty where there is no twin."""
    twin = twin_of(request)
    return _command(request, twin) if twin else ""


def format_call(request: HttpRequest, name: str, *places: str, **query: str | int | None) -> str:
    """Return the command that requests an address of the API, such as `rows` of a table. What is
    empty in `query` is left out.
    """
    words = urlencode({key: text for key, text in query.items() if text not in ("", None)})
    path = reverse(f"api:{name}", args=places)
    return _command(request, f"{path}?{words}" if words else path)


def format_post(request: HttpRequest, name: str, body: Mapping[str, object]) -> str:
    """Return the command that sends `body` to an address of the API."""
    content = f'-H "Content-Type: application/json" -d {shlex.quote(json.dumps(body))}'
    return _command(request, reverse(f"api:{name}"), content)


def _command(request: HttpRequest, path: str, *more: str) -> str:
    address = shlex.quote(request.build_absolute_uri(path))
    return " ".join(["curl", f'-H "{_TOKEN}"', *more, address])
