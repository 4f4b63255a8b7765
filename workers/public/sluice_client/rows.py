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


class ApprovalDetail(TypedDict):
    """`ApprovalDetail` of the OpenAPI document."""

    row: ApprovalRow
    may_decide: bool
    plan: dict[str, Any]
    sample: list[dict[str, Any]]
    has_changed: bool
    problem: str


class ApprovalRow(TypedDict):
    """`ApprovalRow` of the OpenAPI document."""

    operation: str
    table_slug: str
    table_name: str
    action: str
    title: str
    requested_by: str
    requested_at: str
    reason: str
    plan_hash: str
    expires_at: str
    decision: str
    decided_by: str
    decided_at: str | None
    decision_reason: str
    state: str


class AttemptRow(TypedDict):
    """`AttemptRow` of the OpenAPI document."""

    number: int
    queue: str
    host: str
    process: int | None
    sent_at: str | None
    started_at: str | None
    ended_at: str | None
    outcome: str


class AttentionNeed(TypedDict):
    """`AttentionNeed` of the OpenAPI document."""

    key: str
    rank: int
    verdict: str
    title: str
    cause: str
    advice: str
    slug: str
    table_name: str
    since: str | None
    page: str
    operation: str | None
    check: str
    others: int


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


class BatchTotals(TypedDict):
    """`BatchTotals` of the OpenAPI document."""

    markers: int
    batches: int
    requests: int
    markers_per_batch: float | None
    requests_per_batch: float | None
    saved: int


class CancelledRun(TypedDict):
    """`CancelledRun` of the OpenAPI document."""

    was_running: bool


class CellAnswer(TypedDict):
    """`CellAnswer` of the OpenAPI document."""

    key: str
    partition: str
    file_id: str
    column: str
    stream: str
    verdict: str
    words: str
    since: str | None
    is_since_sure: bool
    by: str
    completes: str
    groups: list[GroupAnswer]


class ChangedGroup(TypedDict):
    """`ChangedGroup` of the OpenAPI document."""

    partition: str
    file_id: str
    inserts: int
    updates: int
    deletes: int
    bytes: int
    is_replaced: bool


class ChangedRow(TypedDict):
    """`ChangedRow` of the OpenAPI document."""

    op: str
    key: str
    partition: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    changed: list[str]


class ChangedRows(TypedDict):
    """`ChangedRows` of the OpenAPI document."""

    columns: list[RowColumn]
    rows: list[ChangedRow]
    is_cut: bool
    cut_by: str
    took_ms: int
    changed_columns: dict[str, Any]
    groups: list[ChangedGroup]
    group_count: int
    writer_counts: CommitCounts | None
    stream_columns: list[str]


class Check(TypedDict):
    """`Check` of the OpenAPI document."""

    name: str
    title: str
    verdict: str
    sentence: str
    advice: str
    instant: str
    remedy: str


class ColumnNulls(TypedDict):
    """`ColumnNulls` of the OpenAPI document."""

    name: str
    type: str
    is_masked: bool
    nulls: int | None
    null_pct: float | None


class CommitCounts(TypedDict):
    """`CommitCounts` of the OpenAPI document."""

    inserts: int
    updates: int
    deletes: int


class CompletenessPoint(TypedDict):
    """`CompletenessPoint` of the OpenAPI document."""

    at: str
    keys: int
    complete_pct: float
    by_group: dict[str, Any]


class ConflictLine(TypedDict):
    """`ConflictLine` of the OpenAPI document."""

    slug: str
    table_name: str
    kind: str
    winner: str
    loser: str
    loser_instant: str
    decided_at: str


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


class ConnectionRow(TypedDict):
    """`ConnectionRow` of the OpenAPI document."""

    name: str
    kind: str
    address: str
    settings: dict[str, Any] | None
    secrets: list[str]
    namespaces: list[str]
    created_by: str
    created_at: str | None
    changed_by: str
    changed_at: str | None
    tested_at: str | None
    tested_by: str
    test_problem: str


class ConnectionTest(TypedDict):
    """`ConnectionTest` of the OpenAPI document."""

    is_reached: bool
    problem: str


class CoverageColumn(TypedDict):
    """`CoverageColumn` of the OpenAPI document."""

    group: str
    column: str
    share_pct: list[float]


class CoverageMap(TypedDict):
    """`CoverageMap` of the OpenAPI document."""

    by: str
    starts_ms: list[int]
    width_ms: int
    rows: list[int]
    columns: list[CoverageColumn]
    columns_left_out: int
    rows_beyond: int


class GrantRow(TypedDict):
    """`GrantRow` of the OpenAPI document."""

    id: int
    user: str
    group: str
    role: str
    namespace: str
    table: str
    granted_at: str
    granted_by: str


class GroupAnswer(TypedDict):
    """`GroupAnswer` of the OpenAPI document."""

    stream: str
    verdict: str
    ordering: list[str]
    age: list[str]
    since: str | None
    is_since_sure: bool
    by: str
    completes: str
    versions: list[VersionRow]


class GroupCommitRow(TypedDict):
    """`GroupCommitRow` of the OpenAPI document."""

    group: str
    instant: str
    arrived_ms: int
    greatest_ms: int | None
    least_ms: int | None
    rows: int
    late: int
    least: str
    greatest: str
    writer: str


class GroupRow(TypedDict):
    """`GroupRow` of the OpenAPI document."""

    name: str
    is_group: bool
    columns: list[str]
    ordering: list[str]
    rules: list[str]
    is_needed: bool
    last_event: str | None
    lag_s: float | None
    event_at: str | None
    ahead_s: float
    processing_lag_s: float | None
    behind_s: float | None
    last_commit_at: str | None
    last_instant: str | None
    last_writer: str
    rows_per_s: float | None
    rows: int
    deletes: int
    late: int
    late_key: str
    tied: int
    nulls: int
    skipped: int
    tombstones: int
    rows_with: int
    rows_without: int
    coverage_pct: float | None


class HomeBoard(TypedDict):
    """`HomeBoard` of the OpenAPI document."""

    at: str
    tables: int
    figures: HomeCounts
    needs: list[AttentionNeed]
    needs_total: int
    is_needs_cut: bool
    writers: list[WriterLine]
    writers_total: int
    conflicts: list[ConflictLine]
    conflicts_24h: int
    open_conflicts: int
    markers: PendingMarkers
    streams: JoinedStreams
    operations: list[OperationRow]
    operations_total: int
    recent_actions: list[RecentAction]


class HomeCounts(TypedDict):
    """`HomeCounts` of the OpenAPI document."""

    late_tables: int
    suspect_writers: int
    broken_operations: int
    is_broken_cut: bool
    firing_alerts: int
    is_alerts_cut: bool
    blocked_archiving: int


class HourBoard(TypedDict):
    """`HourBoard` of the OpenAPI document."""

    hours: list[str]
    tables: list[HourCounts]


class HourCounts(TypedDict):
    """`HourCounts` of the OpenAPI document."""

    slug: str
    name: str
    commits: list[int]
    conflicts: list[int]


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


class JoinStatus(TypedDict):
    """`JoinStatus` of the OpenAPI document."""

    streams: list[StreamRow]
    total_rows: int
    sampled_at: str | None
    commits_since: int


class JoinedStreams(TypedDict):
    """`JoinedStreams` of the OpenAPI document."""

    rows: list[StreamLine]
    total: int


class LetterCommitRow(TypedDict):
    """`LetterCommitRow` of the OpenAPI document."""

    instant: str
    completed_at: str
    records: int
    files: list[str]


class LogGroupRow(TypedDict):
    """`LogGroupRow` of the OpenAPI document."""

    partition: str
    file_id: str
    log_files: int
    log_bytes: int
    oldest_at: str


class MarkerDirectoryRow(TypedDict):
    """`MarkerDirectoryRow` of the OpenAPI document."""

    instant: str
    writer: str
    layout: str
    markers: int
    files: list[MarkerFill]
    claim_count: int
    age_s: float
    changed_at: str
    is_orphan: bool
    is_doomed: bool


class MarkerFill(TypedDict):
    """`MarkerFill` of the OpenAPI document."""

    name: str
    markers: int


class MarkerLine(TypedDict):
    """`MarkerLine` of the OpenAPI document."""

    slug: str
    table_name: str
    instant: str
    writer: str
    markers: int
    age_s: float
    is_orphan: bool


class MarkerServerStatus(TypedDict):
    """`MarkerServerStatus` of the OpenAPI document."""

    state: str
    port: int | None
    pid: int | None
    started_at: str | None
    restarts: int
    interval_ms: int | None
    threads: int
    latest: SampleRow | None
    samples: list[SampleRow]
    recent: BatchTotals | None
    total: BatchTotals | None


class MaskedColumns(TypedDict):
    """`MaskedColumns` of the OpenAPI document."""

    columns: list[str]
    unknown: list[str]


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
    repeats: list[str]
    lost: str
    attempts: list[AttemptRow]
    stages: list[StageRow]
    spark_ui_url: str


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
    left_s: float | None
    attempts: int
    lasted_s: float | None
    waits_for: Wait | None


class OverwritePlan(TypedDict):
    """`OverwritePlan` of the OpenAPI document."""

    operation: str
    summary: str
    partitions: int
    file_groups: int
    files: int
    bytes: int
    blockers: list[str]
    sample: list[dict[str, Any]]
    sample_note: str
    replaces: str
    plan_hash: str


class ParticipantRow(TypedDict):
    """`ParticipantRow` of the OpenAPI document."""

    partition: int
    participant: str
    worker: str
    state: str
    broker_offset: int | None
    table_offset: int | None
    local_offset: int | None
    lag: int | None
    agreement: str
    has_reported: bool
    seen_at: str | None


class PartitionReset(TypedDict):
    """`PartitionReset` of the OpenAPI document."""

    partition: int
    stands: int | None
    next: int
    first: int
    end: int


class PasswordLink(TypedDict):
    """`PasswordLink` of the OpenAPI document."""

    path: str
    hours: int


class PendingMarkers(TypedDict):
    """`PendingMarkers` of the OpenAPI document."""

    rows: list[MarkerLine]
    total: int
    instants: int
    is_cut: bool


class PendingPlanRow(TypedDict):
    """`PendingPlanRow` of the OpenAPI document."""

    instant: str
    requested_ms: int
    action: str
    state: str
    file_groups: int | None
    files: int | None
    bytes: int | None
    strategy: str
    writer: str


class PeopleGroup(TypedDict):
    """`PeopleGroup` of the OpenAPI document."""

    id: int
    name: str
    members: list[str]
    rights: list[RightRow]


class PersonDetail(TypedDict):
    """`PersonDetail` of the OpenAPI document."""

    person: PersonRow
    rights: list[RightRow]


class PersonRow(TypedDict):
    """`PersonRow` of the OpenAPI document."""

    id: int
    name: str
    email: str
    is_active: bool
    roles: list[str]
    groups: list[str]
    signs_in_by: str
    tokens: int
    joined_at: str
    last_login: str | None


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


class PresenceRow(TypedDict):
    """`PresenceRow` of the OpenAPI document."""

    groups: list[str]
    lacks: list[str]
    keys: int
    share_pct: float


class RecentAction(TypedDict):
    """`RecentAction` of the OpenAPI document."""

    id: int
    at: str
    who: str
    what: str
    object: str
    table_name: str
    reason: str
    result: str


class RightRow(TypedDict):
    """`RightRow` of the OpenAPI document."""

    right: str
    place: str
    by_group: str


class RowColumn(TypedDict):
    """`RowColumn` of the OpenAPI document."""

    name: str
    type: str
    is_masked: bool


class RowGrantRow(TypedDict):
    """`RowGrantRow` of the OpenAPI document."""

    id: int
    user: str
    group: str
    right: str
    namespace: str
    table: str
    granted_at: str
    granted_by: str


class RowVersionRow(TypedDict):
    """`RowVersionRow` of the OpenAPI document."""

    instant: str
    completed_at: str | None
    writer: str
    stream: str
    operation_type: str
    operation: str
    requested_by: str
    op: str
    partition: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    changed: list[str]


class RowVersions(TypedDict):
    """`RowVersions` of the OpenAPI document."""

    key: str
    columns: list[RowColumn]
    versions: list[RowVersionRow]
    is_cut: bool
    cut_by: str
    took_ms: int


class RowsPlan(TypedDict):
    """`RowsPlan` of the OpenAPI document."""

    columns: list[ColumnNulls]
    rows: int
    files_read: int
    files: int
    log_files: int
    slices_read: int
    slices: int
    bytes: int
    left_out: dict[str, Any]
    listed: list[SlicePlanRow]
    took_ms: int


class SampleRow(TypedDict):
    """`SampleRow` of the OpenAPI document."""

    at: str
    up: bool
    queue_depth: int
    batches: int
    requests: int
    markers: int
    batch_sizes: dict[str, Any]
    p50_ms: float | None
    p95_ms: float | None


class SavedQueryRow(TypedDict):
    """`SavedQueryRow` of the OpenAPI document."""

    id: int
    name: str
    statement: str
    note: str
    namespace: str
    owner: str
    is_own: bool
    changed_at: str


class ScheduleDayRow(TypedDict):
    """`ScheduleDayRow` of the OpenAPI document."""

    schedule_id: str
    day: str
    succeeded: int
    failed: int
    running: int
    skipped: int


class ScheduleRow(TypedDict):
    """`ScheduleRow` of the OpenAPI document."""

    id: str
    table_slug: str
    table_name: str
    name: str
    kind: str
    service: str
    parameters: dict[str, Any]
    trigger: str
    every_s: int
    cron: str
    time_zone: str
    words: str
    after_schedule_id: str | None
    after_schedule_name: str
    after_operation_id: str | None
    after_table: str
    owner: str
    is_paused: bool
    is_over: bool
    next_due: list[str]
    waits_for: str | None
    last_run: ScheduleRunRow | None


class ScheduleRunRow(TypedDict):
    """`ScheduleRunRow` of the OpenAPI document."""

    schedule_id: str
    schedule_name: str
    due_at: str
    at: str
    outcome: str
    operation_id: str | None
    operation_state: str
    after_operation_id: str | None
    after_table: str
    missed: int
    words: str


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
    sample: list[dict[str, Any]]
    is_empty: bool
    is_destructive: bool
    plan_hash: str


class ServiceSettingRow(TypedDict):
    """`ServiceSettingRow` of the OpenAPI document."""

    service: str
    enabled: bool
    every_s: int
    trigger_commits: int
    parameters: dict[str, Any]
    last_run_at: str | None
    next_due_at: str | None


class SilenceRow(TypedDict):
    """`SilenceRow` of the OpenAPI document."""

    until: str
    by: str
    reason: str
    reach: str
    namespace: str
    check: str
    may_end: bool


class SinkReset(TypedDict):
    """`SinkReset` of the OpenAPI document."""

    sink_id: str
    instant: str


class SinkResetPlan(TypedDict):
    """`SinkResetPlan` of the OpenAPI document."""

    sink_id: str
    topic: str
    to: str
    is_same_topic: bool
    topic_id: str
    standing_topic_id: str
    standing_instant: str
    partitions: list[PartitionReset]
    gone: list[int]
    read_again: int
    passed_over: int
    is_append: bool
    plan_hash: str


class SinkRow(TypedDict):
    """`SinkRow` of the OpenAPI document."""

    sink_id: str
    problem: str
    topic: str
    state: str
    is_over: bool
    epoch: int
    taken_epoch: int
    taken_by: str
    taken_at: str | None
    instant: str
    deadline_at: str | None
    owner: str
    reason: str
    updated_at: str | None
    stop_kind: str
    stop_by: str
    stop_at: str | None
    commit_instant: str
    commit_completed_at: str
    partitions: int
    reported: int
    lag: int | None
    counters: dict[str, Any]
    waits_for: list[WaitedFor]
    waits_for_count: int
    last_outcome: str


class SinkRun(TypedDict):
    """`SinkRun` of the OpenAPI document."""

    id: str
    state: str
    is_final: bool
    requested_by: str
    requested_at: str
    started_at: str | None
    finished_at: str | None
    message: str
    pid: int | None
    application: str
    options: dict[str, Any]
    relaunches: int
    relaunches_max: int
    relaunch_at: str | None
    stop_by: str
    stop_kind: str
    stop_deadline: str | None


class SinkSummary(TypedDict):
    """`SinkSummary` of the OpenAPI document."""

    sink_id: str
    phase: str
    is_running: bool
    topic: str
    seen: SinkRow | None
    run: SinkRun | None
    silent_at: str | None


class SlicePlanRow(TypedDict):
    """`SlicePlanRow` of the OpenAPI document."""

    partition: str
    file_id: str
    left_out_by: str
    groups_read: int | None
    groups: int | None
    logs: int
    bytes: int


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


class StageRow(TypedDict):
    """`StageRow` of the OpenAPI document."""

    id: int
    name: str
    state: str
    tasks: int
    done: int
    running: int | None
    failed: int | None
    bytes_read: int
    pct: float | None
    left_s: float | None


class StatementRunRow(TypedDict):
    """`StatementRunRow` of the OpenAPI document."""

    id: int
    statement: str
    ran_at: str
    result: str
    rows: int
    took_ms: int


class StoredRow(TypedDict):
    """`StoredRow` of the OpenAPI document."""

    key: str
    partition: str
    commit: str
    cells: list[Any | None]


class StreamLine(TypedDict):
    """`StreamLine` of the OpenAPI document."""

    slug: str
    table_name: str
    stream: str
    rows_with: int
    rows_total: int
    coverage_pct: float | None
    lag_s: float | None
    processing_lag_s: float | None


class StreamRounds(TypedDict):
    """`StreamRounds` of the OpenAPI document."""

    stream: str
    writer: str
    phase: str
    due_at: str | None
    last_round_at: str | None
    last_instant: str | None
    last_word_at: str
    interval_s: float | None
    operation_id: str | None
    ended_as: str
    ended_at: str | None


class StreamRow(TypedDict):
    """`StreamRow` of the OpenAPI document."""

    stream: str
    columns: list[str]
    rows_with: int
    rows_without: int
    coverage_pct: float | None
    last_event_time: str | None
    event_at: str | None
    last_commit_at: str | None
    lag_s: float | None
    ahead_s: float
    processing_lag_s: float | None


class StreamsBoard(TypedDict):
    """`StreamsBoard` of the OpenAPI document."""

    streams: list[GroupRow]
    join: str
    sampled_at: str | None
    is_exact: bool
    slices: int
    slices_read: int
    keys: int
    hidden: int
    complete_pct: float | None
    presence: list[PresenceRow]
    oldest: list[WaitingKey]
    coverage: CoverageMap | None
    points: list[CompletenessPoint]
    uncompacted: Uncompacted


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
    owner: str
    tags: str
    description: str
    last_commit_at: str | None
    last_commit_age_s: float | None
    freshness_target_min: float | None
    is_default_target: bool
    base_file_rows: int | None
    unmerged_log_files: int
    uncounted_file_groups: int
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


class TableRows(TypedDict):
    """`TableRows` of the OpenAPI document."""

    as_of: str | None
    is_older: bool
    next_cursor: str | None
    columns: list[RowColumn]
    rows: list[StoredRow]
    is_cut: bool
    cut_by: str
    slices_read: int
    slices: int
    took_ms: int


class TableSettingRow(TypedDict):
    """`TableSettingRow` of the OpenAPI document."""

    area: str
    key: str
    value: str
    source: str
    default: str
    meaning: str


class TaggedTables(TypedDict):
    """`TaggedTables` of the OpenAPI document."""

    changed: list[str]
    unchanged: list[str]


class TraceRow(TypedDict):
    """`TraceRow` of the OpenAPI document."""

    at_ms: int
    kind: str
    sender: str
    partition: int | None
    instant: str
    detail: str


class TransactionRow(TypedDict):
    """`TransactionRow` of the OpenAPI document."""

    instant: str
    outcome: str
    started_ms: int
    ended_ms: int
    took_ms: int
    rows: int
    bad_rows: int
    reason: str


class TrendDay(TypedDict):
    """`TrendDay` of the OpenAPI document."""

    day: str
    commits: int
    rows: int
    bytes: int
    duration_median_s: float | None
    duration_max_s: float | None
    gap_max_s: float | None
    event_lag_median_s: float | None
    event_lag_max_s: float | None


class Trends(TypedDict):
    """`Trends` of the OpenAPI document."""

    days: list[TrendDay]
    is_cut: bool
    event_lag: str


class Uncompacted(TypedDict):
    """`Uncompacted` of the OpenAPI document."""

    log_files: int
    log_bytes: int
    file_groups: int
    delta_commits: int
    oldest_at: str | None
    largest: list[LogGroupRow]
    pending: list[PendingPlanRow]
    left_out: int


class Unregistered(TypedDict):
    """`Unregistered` of the OpenAPI document."""

    slug: str
    location: str
    rows_deleted: int
    audit_rows_kept: int
    file_groups_kept: int


class UploadRow(TypedDict):
    """`UploadRow` of the OpenAPI document."""

    id: str
    path: str
    name: str
    kind: str
    bytes: int
    created_at: str
    expires_at: str
    operations: list[str]


class VersionRow(TypedDict):
    """`VersionRow` of the OpenAPI document."""

    commit: str
    stream: str
    is_in_base: bool
    age: list[str]
    is_delete: bool
    counts: bool


class Wait(TypedDict):
    """`Wait` of the OpenAPI document."""

    words: str
    page: str
    operation: str
    table: str


class WaitedFor(TypedDict):
    """`WaitedFor` of the OpenAPI document."""

    partition: int
    participant: str
    worker: str
    state: str
    seen_at: str | None


class WaitingKey(TypedDict):
    """`WaitingKey` of the OpenAPI document."""

    key: str
    partition: str
    waits_for: list[str]
    event_at: str | None
    commit: str


class WriterLine(TypedDict):
    """`WriterLine` of the OpenAPI document."""

    table: int
    slug: str
    table_name: str
    namespace: str
    instant: str
    writer: str
    operation: str
    operation_ref: str
    beat_at: str
    expires_at: str
    is_suspect: bool


class WriterRow(TypedDict):
    """`WriterRow` of the OpenAPI document."""

    writer: str
    stream: str
    instant: str
    operation: str
    doing: str | str
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
