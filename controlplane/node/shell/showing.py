"""What a table looks like, on the screen: file groups, schemas, services. From the mirror."""

from __future__ import annotations

from controlplane.mirror.queries.files import Backlog, backlog, file_groups_page
from controlplane.mirror.queries.table_details import schema_history
from controlplane.mirror.queries.table_services import pending_plans, savepoints, service_history
from controlplane.node.shell.own_process import Say
from controlplane.operations.actions import service_kinds
from controlplane.operations.schedules import service_settings
from controlplane.tables.models import Table

RUNS_SHOWN = 10


def show_file_groups(table: Table, say: Say, *, partition: str | None, limit: int) -> None:
    page = file_groups_page(table, partition=partition, limit=limit)
    say(f"{'partition':<24} {'file id':<40} {'base B':>14} {'logs':>5} {'log B':>14} {'slices':>6}")
    for row in page.rows:
        say(
            f"{row.partition:<24} {row.file_id:<40} {row.base_bytes:>14,} {row.log_files:>5} "
            f"{row.log_bytes:>14,} {row.slices:>6}{'  replaced' if row.is_replaced else ''}"
        )
    if page.next_cursor:
        say("... more file groups; use --limit or --partition")


def show_schema(table: Table, say: Say) -> None:
    """Every version, newest first, with what it changed."""
    for row in schema_history(table):
        say(f"{row.instant}  {row.columns} columns  by {row.writer or 'unknown'}")
        for change in row.changes:
            said = {"added": change.after, "removed": change.before}.get(
                change.kind, f"{change.before} -> {change.after}"
            )
            say(f"  {change.kind:<8} {change.name}  {said}")


def show_services(table: Table, say: Say) -> None:
    _show_backlog(backlog(table), say)
    for plan in pending_plans(table):
        say(f"pending   {plan.action} {plan.instant} ({plan.state})")
    for savepoint in savepoints(table):
        say(f"savepoint {savepoint.instant} by {savepoint.by}: {savepoint.comment}")
    settings = {one.service: one for one in service_settings(table)}
    for kind in service_kinds():
        setting = settings.get(kind.name)
        when = "manual only"
        if setting is not None:
            when = f"every {setting.every_s} s" if setting.enabled else "schedule off"
        say(f"service   {kind.name:<18} {kind.role:<9} {when}")
    for run in service_history(table, RUNS_SHOWN):
        say(f"done      {run.instant} {run.service}")


def _show_backlog(waiting: Backlog, say: Say) -> None:
    say(
        f"backlog   {waiting.delta_commits} delta commits, {waiting.log_files} logs "
        f"({waiting.log_bytes:,} B) to compact; {waiting.old_files} old files "
        f"({waiting.old_bytes:,} B) to clean; {waiting.small_files} small files; "
        f"{waiting.active_instants} instants active, {waiting.archived_instants} archived"
    )
