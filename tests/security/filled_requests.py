"""Requests that reach the code which reads rows: for each address that takes a body, one that is
accepted from a person who may. Addresses that read no row, whatever they are sent, stand in
`READS_NO_ROWS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from django.test import Client
from django.urls import reverse

Known = Mapping[str, str]
"""What addresses and bodies are made of: `slug`, `operation_id`, `file`, `plan_hash`, ..."""
STATEMENT = "SELECT * FROM orders"
PREDICATE = "price > 0"
SQL = {"kind": "sql", "statement": STATEMENT}
_WHY = {"reason": "a test"}


@dataclass(frozen=True, slots=True)
class Filled:
    """One request of the address `name`."""

    name: str
    body: Callable[[Known], Mapping[str, Any]]
    method: str = "POST"
    values: Mapping[str, str] = field(default_factory=dict)
    """What the address is made of instead of what is known: name -> name of what is known, or the
    value itself.
    """
    query: str = ""
    needs_no_other: bool = False
    """Whether it is refused while another operation of the same kind waits."""

    @property
    def is_api(self) -> bool:
        return self.name.startswith("api:")

    def path(self, known: Known, takes: frozenset[str]) -> str:
        """The address; KeyError where `known` lacks something that it takes."""
        values = {**known, **{at: known.get(one, one) for at, one in self.values.items()}}
        path = reverse(self.name, kwargs={name: values[name] for name in takes})
        return f"{path}?{self.query.format(**known)}" if self.query else path

    def sent(self, client: Client, known: Known, takes: frozenset[str]) -> tuple[int, str]:
        """The status, and the text of the answer with the address that it leads to."""
        client.raise_request_exception = False
        body, kind = dict(self.body(known)), "application/json"
        if self.is_api:
            content = json.dumps(body)
        else:
            content, kind = urlencode(body), "application/x-www-form-urlencoded"
        answer = client.generic(self.method, self.path(known, takes), content, kind)
        text = b"".join(answer) if answer.streaming else answer.content
        return answer.status_code, text.decode() + answer.get("Location", "")


def _nothing(known: Known) -> dict[str, Any]:
    return {}


def _form(known: Known) -> dict[str, Any]:
    """The confirmation of the plan of a delete."""
    words = {"typed_name": known["slug"], "plan_hash": known["plan_hash"]}
    return {**words, **_WHY, "idempotency_key": uuid4()}


def _planned(known: Known) -> dict[str, Any]:
    return {"plan_hash": known["plan_hash"], "table_name": known["slug"], **_WHY}


def _schedule(known: Known) -> dict[str, Any]:
    return {"name": "hourly", "kind": "write", "parameters": {"source": SQL}, "every_s": 3600}


def _schedule_form(known: Known) -> dict[str, Any]:
    parameters = json.dumps({"source": SQL})
    return {
        "name": "hourly", "what": "write", "parameters": parameters, "trigger": "every",
        "every_minutes": 60, "time_zone": "UTC",
    }  # fmt: skip


def _write_form(**words: str) -> Callable[[Known], dict[str, Any]]:
    return lambda known: {"operation": "upsert", "idempotency_key": uuid4(), **words}


_DELETE = {"service": "delete"}
_OVERWRITE = {"service": "insert_overwrite_table"}
_WAITING = {"approval_id": "waiting_id", "operation_id": "waiting_id"}
_ENDED = {"operation_id": "ended_id"}
FILLED = (
    Filled("api:sql", lambda known: {"statement": STATEMENT}),
    Filled("api:sql", lambda known: {"statement": STATEMENT, "file_format": "csv"}),
    Filled("api:source_preview", lambda known: {"source": SQL}),
    Filled(
        "api:source_preview", lambda known: {"source": {"kind": "csv", "path": known["file"]}}
    ),
    Filled("api:table_operations", lambda known: {"source": SQL}),
    Filled(
        "api:table_operations", lambda known: {"source": {"kind": "csv", "path": known["file"]}}
    ),
    Filled(
        "api:overwrite_plan",
        lambda known: {
            "source": {"kind": "csv", "path": known["file"]},
            "operation": "insert_overwrite_table",
        },
    ),
    Filled("api:service_plan", lambda known: {"parameters": {"predicate": PREDICATE}}),
    Filled(
        "api:service_plan", lambda known: {"parameters": {"path": known["file"]}}, values=_OVERWRITE
    ),
    Filled(
        "api:service",
        lambda known: {"parameters": {"predicate": PREDICATE}, **_planned(known)},
        values=_DELETE,
        needs_no_other=True,
    ),
    Filled("api:operation_again", lambda known: dict(_WHY), values=_ENDED),
    Filled("api:operation_cancel", lambda known: dict(_WHY), values=_WAITING),
    Filled("api:bulk_cancel", lambda known: {"operations": [known["waiting_id"]]}),
    Filled("api:bulk_service", lambda known: {"service": "clean", "tables": [known["slug"]]}),
    Filled(
        "api:approval_approve",
        lambda known: {"plan_hash": known["waiting_hash"], **_WHY},
        values=_WAITING,
    ),
    Filled("api:approval_decline", lambda known: dict(_WHY), values=_WAITING),
    Filled("api:sink_letters_replay", lambda known: {"instant": known["requested_at"], **_WHY}),
    Filled("api:table_schedules", _schedule),
    Filled("api:schedule", _schedule, method="PUT"),
    Filled("api:new_table_suggestion", lambda known: {"statement": STATEMENT}),
    Filled("api:new_table_suggestion", lambda known: {"path": known["file"]}),
    Filled("api:rollback_plan", lambda known: {"instant": known["newest"]}),
    Filled("sql", lambda known: {"statement": STATEMENT}),
    Filled("sql-export", lambda known: {"statement": STATEMENT, "file": "csv"}),
    Filled("table-write", _write_form(statement=STATEMENT, deed="preview"), query="kind=sql"),
    Filled("table-write", _write_form(statement=STATEMENT), query="kind=sql"),
    Filled(
        "service",
        lambda known: {"predicate": PREDICATE, **_form(known)},
        values=_DELETE,
        needs_no_other=True,
    ),
    Filled("operation-again", lambda known: {"idempotency_key": uuid4()}, values=_ENDED),
    Filled("operation-cancel", lambda known: dict(_WHY), values=_WAITING),
    Filled("approval", lambda known: {"verdict": "decline", **_WHY}, values=_WAITING),
    Filled("sink-replay", lambda known: {"instant": known["requested_at"], **_WHY}),
    Filled("schedule-new", _schedule_form),
    Filled("schedule", _schedule_form),
    Filled(
        "tables-bulk",
        lambda known: {"service": "clean", "table": known["slug"], "idempotency_key": uuid4()},
    ),
    Filled("table-create", lambda known: {"deed": "look", "statement": STATEMENT}),
    Filled("service", _nothing, method="GET", values=_DELETE, query=f"predicate={PREDICATE}"),
    Filled("sink-replay", _nothing, method="GET", query="instant={requested_at}"),
)  # fmt: skip
READS_NO_ROWS = {
    # Settings of tables, sinks and the node; names, places and numbers.
    *("api:tables", "api:table", "api:new_tables", "api:service_schedule", "api:streams"),
    *("api:sinks", "api:sink_stop", "api:sink_relaunch", "api:sink_reset_plan", "api:sink_reset"),
    *("api:schedule_pause", "api:approval_rule", "api:table_approval_rule", "api:bulk_tables"),
    *("api:marker_server_restart", "api:writer_abort", "api:masked_columns", "api:rollbacks"),
    *("settings", "masks", "service-setting", "sink-start", "sink-stop", "sink-relaunch"),
    *("sink-reset", "schedule-pause", "schedule-delete", "approval-rules", "table-approval-rules"),
    *("stream-declare", "stream-launch", "table-register", "unregister", "writer-abort-now"),
    "rollback-plan",
    # Health, alerts and where they are sent.
    *("api:alert_silence", "api:alert_rule", "api:threshold", "api:table_threshold"),
    *("api:channels", "api:channel", "api:channel_test", "api:bulk_silence"),
    *("alert-rule", "alert-silence", "alert-unsilence", "channel-new", "channel-change"),
    *("channel-test", "channel-delete", "thresholds", "table-thresholds"),
    # People, what they may, and what they chose.
    *("api:grants", "api:grant", "api:users", "api:user", "api:user_link", "api:groups"),
    *("api:group", "api:group_member", "api:row_grants", "api:row_grant", "api:tokens"),
    *("api:token", "access", "access-take", "access-rows", "access-rows-take", "people"),
    *("person-roles", "person-lock", "person-unlock", "person-link", "group-create", "group-add"),
    *("group-remove", "group-delete", "password", "tokens", "token-revoke", "login", "logout"),
    *("preferences", "columns-choose", "view-save", "view-delete", "table-pin"),
    # Statements that are kept, and run elsewhere.
    *("api:saved_queries", "api:saved_query", "sql-save", "sql-delete"),
    # What workers report, and the demo, which has tables of its own.
    *("api:report_operation", "api:report_log", "api:report_leave"),
    *("demo", "demo-reset", "demo-start", "demo-step", "demo-strip"),
}
