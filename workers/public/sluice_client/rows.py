"""What the node answers, by its OpenAPI document. Made by `manage.py client_rows`."""

from __future__ import annotations

from typing import Any, TypedDict


class AlertRow(TypedDict):
    """`AlertRow` of the OpenAPI document."""

    id: int
    slug: str
    table_name: str
    check: str
    title: str
    verdict: str
    severity: str
    sentence: str
    advice: str
    fired_at: str
    resolved_at: str | None
    silence: SilenceRow | None
    may_silence: bool


class AuditRow(TypedDict):
    """`AuditRow` of the OpenAPI document."""

    id: int
    sequence: int | None
    at: str
    who: str
    what: str
    object: str
    result: str
    reason: str
    plan_hash: str
    request_id: str
    details: dict[str, Any]
    version: int
    digest: str
    previous_hash: str
    hash: str


class ConflictRow(TypedDict):
    """`ConflictRow` of the OpenAPI document."""

    loser_instant: str
    loser_writer: str
    winner_instant: str
    winner_writer: str
    kind: str
    detected: str
    message: str
    overlap: list[list[str]]
    overlap_count: int
    schemas: dict[str, Any] | None
    strategy: str
    wasted_files: int
    wasted_bytes: int
    lasted_ms: int | None
    details: dict[str, Any]
    decided_at: str


class InstantRow(TypedDict):
    """`InstantRow` of the OpenAPI document."""

    requested_at: str
    requested_ms: int
    action: str
    state: str
    completed_at: str | None
    completed_ms: int | None
    writer: str
    stream: str
    operation_type: str
    rows: int | None
    files: int | None
    bytes: int | None
    is_archived: bool
    undone_at: str | None
    undone_by: str | None


class OperationDetail(TypedDict):
    """`OperationDetail` of the OpenAPI document."""

    row: OperationRow
    heading: str
    parameters: dict[str, Any]
    plan: dict[str, Any]
    plan_hash: str
    pid: int | None
    session_id: str
    again_of: str | None


class OperationRow(TypedDict):
    """`OperationRow` of the OpenAPI document."""

    id: str
    table_slug: str
    table_name: str
    kind: str
    service: str
    state: str
    is_final: bool
    requested_by: str
    requested_at: str
    started_at: str | None
    finished_at: str | None
    reason: str
    instant: str
    writer: str
    message: str
    progress_done: int
    progress_total: int
    progress_unit: str
    progress_pct: float | None
    attempts: int
    lasted_s: float | None
    waits_for: Wait | None


class PlanItemRow(TypedDict):
    """`PlanItemRow` of the OpenAPI document."""

    what: str
    effect: str
    bytes: int
    detail: str


class PlanView(TypedDict):
    """`PlanView` of the OpenAPI document."""

    instant: str
    action: str
    state: str
    files: list[PlannedFileRow]
    bytes_total: int
    rows: int | None
    partitions: list[str]
    blockers: list[str]
    warnings: list[str]
    plan_hash: str


class PlannedFileRow(TypedDict):
    """`PlannedFileRow` of the OpenAPI document."""

    path: str
    bytes: int


class ServicePlanView(TypedDict):
    """`ServicePlanView` of the OpenAPI document."""

    service: str
    summary: str
    instant: str | None
    items: list[PlanItemRow]
    bytes_total: int
    figures: dict[str, Any]
    blockers: list[str]
    warnings: list[str]
    is_empty: bool
    is_destructive: bool
    plan_hash: str


class SilenceRow(TypedDict):
    """`SilenceRow` of the OpenAPI document."""

    until: str
    by: str
    reason: str


class SqlAnswer(TypedDict):
    """`SqlAnswer` of the OpenAPI document."""

    columns: list[SqlColumn]
    rows: list[list[Any | None]]
    is_cut: bool
    cut_by: str
    took_ms: int
    tables: list[str]


class SqlColumn(TypedDict):
    """`SqlColumn` of the OpenAPI document."""

    name: str
    type: str
    is_masked: bool


class TableRow(TypedDict):
    """`TableRow` of the OpenAPI document."""

    slug: str
    name: str
    namespace: str
    table_type: str
    table_version: int
    is_foreign: bool
    write_refusal: str
    location: str
    last_commit_at: str | None
    last_commit_age_s: float | None
    active_writers: int
    conflicts_24h: int
    pending_instants: int
    synced_at: str | None
    sync_age_s: float | None
    sync_state: str
    sync_problem: str
    sync_error: str
    sync_failing_since: str | None
    lock_provider: str


class Wait(TypedDict):
    """`Wait` of the OpenAPI document."""

    words: str
    page: str
    operation: str
    table: str


class WriterRow(TypedDict):
    """`WriterRow` of the OpenAPI document."""

    writer: str
    stream: str
    instant: str
    operation: str
    mode: str
    host: str
    pid: int | None
    beat_at: str
    beat_age_s: float
    expires_in_s: float
    tolerance_s: float
    state: str
    markers: int
    operation_id: str
    ending: str | str
