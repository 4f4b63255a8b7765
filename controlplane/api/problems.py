"""Every error that the API answers with: its stable code, its HTTP status, its title, what to do.

Errors are problem details (RFC 9457): `{type, title, status, detail, code, values}` with the media
type `application/problem+json`. Programs look at `code` alone; a code never changes its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workers.masking import Masker

_MASKER = Masker()
MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:sluice:problem:"


@dataclass(frozen=True, slots=True)
class ProblemKind:
    status: int
    title: str
    remedy: str
    """What whoever gets it can do, as the documentation says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What went wrong, to what, and what to do."""

    type: str
    """`urn:sluice:problem:` and the code."""
    title: str
    """The same words for every problem of this code."""
    status: int
    detail: str
    """A sentence about this request."""
    code: str
    values: Mapping[str, Any]
    """What the sentence speaks of, such as `fields` with what is wrong with each."""


PROBLEMS: Mapping[str, ProblemKind] = {
    "invalid_request": ProblemKind(
        400, "The request has wrong values", "Correct what `detail` and `values.fields` name."
    ),
    "parse_error": ProblemKind(
        400, "The body cannot be read", "Send JSON of at most 64 levels, in UTF-8."
    ),
    "refused": ProblemKind(400, "The request is refused", "`detail` says why."),
    "sql_refused": ProblemKind(
        400,
        "The statement says what is not allowed",
        "Leave out what `detail` names; nothing of it ran. The page on SQL lists what there is.",
    ),
    "rows_refused": ProblemKind(
        400,
        "The question does not fit the table",
        "`values.field` names the part of it, and `detail` what is wrong with that.",
    ),
    "not_authenticated": ProblemKind(
        401, "Not authenticated", "Send `Authorization: Token <token>`, or sign in."
    ),
    "authentication_failed": ProblemKind(
        401, "Invalid token", "Create another token; this one is unknown, revoked or expired."
    ),
    "permission_denied": ProblemKind(
        403, "Insufficient role", "Ask an admin for the role that `detail` names."
    ),
    "sql_masked_column": ProblemKind(
        403,
        "A masked column can only be shown",
        "Show `values.column` as it is or leave it out; an admin gives the right to see it.",
    ),
    "not_found": ProblemKind(
        404, "Not found", "Check the list; it contains only what you can see."
    ),
    "sql_table_unknown": ProblemKind(
        404,
        "The statement names a table that is not there",
        "Check the list of tables; it contains only what you can see.",
    ),
    "method_not_allowed": ProblemKind(
        405, "This address does not take that method", "The header `Allow` lists those it takes."
    ),
    "not_acceptable": ProblemKind(
        406, "The answer has no such media type", "Accept `application/json`."
    ),
    "not_allowed_now": ProblemKind(
        409,
        "Not possible now",
        "Wait for what `detail` names, or end it; then ask again.",
    ),
    "plan_changed": ProblemKind(
        409, "The table changed after the plan was computed", "Request the plan again and check it."
    ),
    "state_changed": ProblemKind(
        412,
        "Changed by another request",
        "Read it again, then send the change with the new ETag.",
    ),
    "too_large": ProblemKind(
        413,
        "The body is too large",
        "Send at most a megabyte, and a file of at most `values.bytes_max`.",
    ),
    "unsupported_media_type": ProblemKind(
        415, "The body has another media type", "Send `Content-Type: application/json`."
    ),
    "idempotency_key_reused": ProblemKind(
        422, "The key came with another request", "Take a new `Idempotency-Key`."
    ),
    "rows_gone": ProblemKind(
        422,
        "The table does not go back that far",
        "Ask for a later moment; `hoodie.cleaner.commits.retained` says how far back files stay.",
    ),
    "sql_limit": ProblemKind(
        422,
        "The statement ran into a limit",
        "`values.limit` is memory, time, cpu or answer_bytes; `detail` says what to change.",
    ),
    "sql_failed": ProblemKind(
        422, "The statement cannot be computed", "`values.why` is what the engine says of it."
    ),
    "sql_cancelled": ProblemKind(
        422, "The statement was cancelled", "Send it again to run it from its beginning."
    ),
    "throttled": ProblemKind(
        429, "Too many requests", "Wait as many seconds as the header `Retry-After` says."
    ),
    "too_many_streams": ProblemKind(
        429, "No more live streams of this user", "Close one; until then ask every few seconds."
    ),
    "sql_busy": ProblemKind(
        429,
        "Too many statements run",
        "Wait for one of yours to end, or for another's; then send it again.",
    ),
    "internal": ProblemKind(
        500, "Internal server error", "The web log has it under `values.request_id`."
    ),
    "database_unavailable": ProblemKind(
        503, "The database does not answer", "Nothing was changed; ask again with the same key."
    ),
    "queue_unavailable": ProblemKind(
        503, "Redis does not answer", "What was stored stays; ask again with the same key."
    ),
    "no_live_stream": ProblemKind(
        503,
        "This node has no live stream to give",
        "Ask every few seconds, then for a stream again.",
    ),
    "storage_unavailable": ProblemKind(
        503, "The table's storage does not answer", "Nothing was changed; ask again."
    ),
}


def problem(code: str, detail: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an error. Raises KeyError for a code that is not declared here.

    What was refused is said again, but for what is named like a secret (threat T15).
    """
    kind = PROBLEMS[code]
    return {
        "type": f"{TYPE_PREFIX}{code}",
        "title": kind.title,
        "status": kind.status,
        "detail": _MASKER.mask(detail),
        "code": code,
        "values": {name: _masked(value) for name, value in values.items()},
    }


def _masked(value: Any) -> Any:
    match value:
        case str():
            return _MASKER.mask(value)
        case Mapping():
            return {name: _masked(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_masked(inner) for inner in value]
        case _:
            return value
