"""Requests that reach the code which reads rows: for each address that takes a body, one that is
accepted from a person who may. `READS_NO_ROWS` lists the addresses that read no row, whatever they
are sent.
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

Facts = Mapping[str, str]
"""What addresses and bodies are made of: `slug`, `operation_id`, `file`, `plan_hash`, ..."""
STATEMENT = "SELECT * FROM orders"
PREDICATE = "price > 0"
SQL = {"kind": "sql", "statement": STATEMENT}
_WHY = {"reason": "a test"}


@dataclass(frozen=True, slots=True)
class Filled:
    """One request of the address `name`."""

    name: str
    body: Callable[[Facts], Mapping[str, Any]]
    method: str = "POST"
    values: Mapping[str, str] = field(default_factory=dict)
    """What the address is made of instead of its own facts: name -> name of another fact, or the
    value itself.
    """
    query: str = ""
    needs_no_other: bool = False
    """Whether it is refused while another operation of the same kind waits."""

    @property
    def is_api(self) -> bool:
        return self.name.startswith("api:")

    def path(self, facts: Facts, takes: frozenset[str]) -> str:
        """The address; KeyError where `facts` lacks something that it takes."""
        values = {
            **facts,
            **{name: facts.get(value, value) for name, value in self.values.items()},
        }
        path = reverse(self.name, kwargs={name: values[name] for name in takes})
        return f"{path}?{self.query.format(**facts)}" if self.query else path

    def sent(self, client: Client, facts: Facts, takes: frozenset[str]) -> tuple[int, str]:
        """The status, and the text of the answer with the address that it leads to."""
        client.raise_request_exception = False
        body, kind = dict(self.body(facts)), "application/json"
        if self.is_api:
            content = json.dumps(body)
        else:
            content, kind = urlencode(body), "application/x-www-form-urlencoded"
        answer = client.generic(self.method, self.path(facts, takes), content, kind)
        text = b"".join(answer) if answer.streaming else answer.content
        return answer.status_code, text.decode() + answer.get("Location", "")


def _nothing(facts: Facts) -> dict[str, Any]:
    return {}


def _form(facts: Facts) -> dict[str, Any]:
    """The confirmation of the plan of a delete."""
    words = {"typed_name": facts["slug"], "plan_hash": facts["plan_hash"]}
    return {**words, **_WHY, "idempotency_key": uuid4()}


def _confirm_plan(facts: Facts) -> dict[str, Any]:
    return {"plan_hash": facts["plan_hash"], "table_name": facts["slug"], **_WHY}


def _schedule(facts: Facts) -> dict[str, Any]:
    return {"name": "hourly", "kind": "write", "parameters": {"source": SQL}, "every_s": 3600}


def _schedule_form(facts: Facts) -> dict[str, Any]:
    parameters = json.dumps({"source": SQL})
    return {
        "name": "hourly", "what": "write", "parameters": parameters, "trigger": "every",
        "every_minutes": 60, "time_zone": "UTC",
    }  # fmt: skip


def _write_form(**words: str) -> Callable[[Facts], dict[str, Any]]:
    return lambda facts: {"operation": "upsert", "idempotency_key": uuid4(), **words}


_DELETE = {"service": "delete"}
_OVERWRITE = {"service": "insert_overwrite_table"}
_WAITING = {"approval_id": "waiting_id", "operation_id": "waiting_id"}
_ENDED = {"operation_id": "ended_id"}
FILLED = (
    Filled("api:sql", lambda facts: {"statement": STATEMENT}),
    Filled("api:sql", lambda facts: {"statement": STATEMENT, "file_format": "csv"}),
    Filled("api:source_preview", lambda facts: {"source": SQL}),
    Filled(
        "api:source_preview", lambda facts: {"source": {"kind": "csv", "path": facts["file"]}}
    ),
    Filled("api:table_operations", lambda facts: {"source": SQL}),
    Filled(
        "api:table_operations", lambda facts: {"source": {"kind": "csv", "path": facts["file"]}}
    ),
    Filled(
        "api:overwrite_plan",
        lambda facts: {
            "source": {"kind": "csv", "path": facts["file"]},
            "operation": "insert_overwrite_table",
        },
    ),
    Filled("api:service_plan", lambda facts: {"parameters": {"predicate": PREDICATE}}),
    Filled(
        "api:service_plan", lambda facts: {"parameters": {"path": facts["file"]}}, values=_OVERWRITE
    ),
    Filled(
        "api:service",
        lambda facts: {"parameters": {"predicate": PREDICATE}, **_confirm_plan(facts)},
        values=_DELETE,
        needs_no_other=True,
    ),
    Filled("api:operation_again", lambda facts: dict(_WHY), values=_ENDED),
    Filled("api:operation_cancel", lambda facts: dict(_WHY), values=_WAITING),
    Filled("api:bulk_cancel", lambda facts: {"operations": [facts["waiting_id"]]}),
    Filled("api:bulk_service", lambda facts: {"service": "clean", "tables": [facts["slug"]]}),
    Filled(
        "api:approval_approve",
        lambda facts: {"plan_hash": facts["waiting_hash"], **_WHY},
        values=_WAITING,
    ),
    Filled("api:approval_decline", lambda facts: dict(_WHY), values=_WAITING),
    Filled("api:sink_letters_replay", lambda facts: {"instant": facts["requested_at"], **_WHY}),
    Filled("api:table_schedules", _schedule),
    Filled("api:schedule", _schedule, method="PUT"),
    Filled("api:new_table_suggestion", lambda facts: {"statement": STATEMENT}),
    Filled("api:new_table_suggestion", lambda facts: {"path": facts["file"]}),
    Filled("api:rollback_plan", lambda facts: {"instant": facts["newest"]}),
    Filled("sql", lambda facts: {"statement": STATEMENT}),
    Filled("sql-export", lambda facts: {"statement": STATEMENT, "file": "csv"}),
    Filled("table-write", _write_form(statement=STATEMENT, deed="preview"), query="kind=sql"),
    Filled("table-write", _write_form(statement=STATEMENT), query="kind=sql"),
    Filled(
        "service",
        lambda facts: {"predicate": PREDICATE, **_form(facts)},
        values=_DELETE,
        needs_no_other=True,
    ),
    Filled("operation-again", lambda facts: {"idempotency_key": uuid4()}, values=_ENDED),
    Filled("operation-cancel", lambda facts: dict(_WHY), values=_WAITING),
    Filled("approval", lambda facts: {"verdict": "decline", **_WHY}, values=_WAITING),
    Filled("sink-replay", lambda facts: {"instant": facts["requested_at"], **_WHY}),
    Filled("schedule-new", _schedule_form),
    Filled("schedule", _schedule_form),
    Filled(
        "tables-bulk",
        lambda facts: {"service": "clean", "table": facts["slug"], "idempotency_key": uuid4()},
    ),
    Filled("table-create", lambda facts: {"deed": "look", "statement": STATEMENT}),
    Filled("service", _nothing, method="GET", values=_DELETE, query=f"predicate={PREDICATE}"),
    Filled("sink-replay", _nothing, method="GET", query="instant={requested_at}"),
)  # fmt: skip
READS_NO_ROWS = {
    # Settings of tables, sinks and the node; names, places and numbers.
    *("api:tables", "api:table", "api:new_tables", "api:service_schedule", "api:streams"),
    *("api:sinks", "api:sink_stop", "api:sink_relaunch", "api:sink_reset_plan", "api:sink_reset"),
    *("api:schedule_pause", "api:approval_rule", "api:table_approval_rule", "api:bulk_tables"),
    *("api:bulk_tags", "tables-tag"),
    *("api:marker_server_restart", "api:writer_abort", "api:masked_columns", "api:rollbacks"),
    *("settings", "masks", "service-setting", "sink-start", "sink-stop", "sink-relaunch"),
    *("sink-reset", "schedule-pause", "schedule-delete", "approval-rules", "table-approval-rules"),
    *("stream-declare", "stream-launch", "table-register", "unregister", "writer-abort-now"),
    *("rollback-plan", "writers-pause"),
    # Connections: addresses, and who may use them.
    *("api:connections", "api:connection", "api:connection_grants", "api:connection_test"),
    *("connection-new", "connection-change", "connection-grants", "connection-test"),
    "connection-delete",
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
    *("api:sql_cancel", "api:sql_runs", "sql-cancel"),
    # Files of rows that come in, whose sender alone names them.
    *("api:uploads", "api:upload", "table-upload", "table-create-upload"),
    # What workers report, and the demo, which has tables of its own.
    *("api:report_operation", "api:report_log", "api:report_leave"),
    *("demo", "demo-reset", "demo-start", "demo-step", "demo-strip"),
}
