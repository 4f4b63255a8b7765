"""What a program asks a node: tables, their history, operations; and what it has it do."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from .connection import Connection, segment, table_path
from .connections import ConnectionCalls
from .operation_calls import OperationCalls
from .people import PeopleCalls
from .problems import OperationFailed
from .rows import (
    AlertRow,
    ApprovalDetail,
    ApprovalRow,
    AuditRow,
    CancelledRun,
    ChangedRows,
    Check,
    ConflictRow,
    HomeBoard,
    HourBoard,
    InstantRow,
    MarkerDirectoryRow,
    MarkerServerStatus,
    OperationDetail,
    OperationRow,
    OverwritePlan,
    RowsPlan,
    RowVersions,
    SavedQueryRow,
    ScheduleDayRow,
    ScheduleRow,
    SqlAnswer,
    StatementRunRow,
    TableRow,
    TableRows,
    TableSettingRow,
    TaggedTables,
    Trends,
    UploadRow,
    WriterRow,
)
from .sinks import SinkCalls

_WAIT_S = 1.0


class Client(OperationCalls, SinkCalls, PeopleCalls, ConnectionCalls):
    """One node, asked with one token. Every method raises ProblemError for what the node refuses,
    and NodeUnreachable when it does not answer; a request that got no answer is sent again with the
    same idempotency key, so that it has one effect.
    """

    def __init__(self, address: str, token: str, *, timeout_s: float = 30.0) -> None:
        """`address` as `manage.py status` prints it, such as `http://127.0.0.1:8000`."""
        self._connection = Connection(address, token, timeout_s)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give its connections back."""
        self._connection.close()

    # All tables

    def home(self) -> HomeBoard:
        """Numbers and first rows over all tables that the token's owner sees: active writers,
        conflicts, pending markers, join status, and what needs attention.
        """
        return self._connection.get(HomeBoard, "home/")

    def commits_by_hour(self) -> HourBoard:
        """Commits and conflicts of each of the last 24 hours."""
        return self._connection.get(HourBoard, "home/hours/")

    # Tables

    def tables(
        self, *, search: str | None = None, namespace: str | None = None
    ) -> Iterator[TableRow]:
        """The tables that the token's owner sees, by slug; `search` is looked for in slug, name,
        location and description.
        """
        return self._connection.pages("tables/", {"search": search, "namespace": namespace})

    def table(self, slug: str) -> TableRow:
        """One table. Raises ProblemError `not_found` also for one that its owner may not see."""
        return self._connection.get(TableRow, table_path(slug))

    def tag_tables(
        self, slugs: Sequence[str], *, add: str = "", remove: str = "", reason: str
    ) -> TaggedTables:
        """Add tags to these tables and remove others: on all of the tables or on none. Several tags
        have spaces between them.
        """
        body = {"tables": list(slugs), "add": add, "remove": remove, "reason": reason}
        return self._connection.ask(TaggedTables, "POST", "bulk/tags/", body)

    # Rows

    def sql(self, statement: str, *, limit: int = 1_000, run_id: str = "") -> SqlAnswer:
        """The rows of one SELECT over tables whose rows the token's owner may read; `is_cut` says
        whether there are more than `limit`. `cancel_sql` with `run_id` ends it. Raises
        ProblemError: `sql_refused`, `sql_table_unknown`, `sql_masked_column`, `sql_limit`,
        `sql_failed`, `sql_busy`, `sql_cancelled`.
        """
        body = {"statement": statement, "limit": limit, "run_id": run_id}
        return self._connection.ask(SqlAnswer, "POST", "sql/", body)

    def cancel_sql(self, run_id: str) -> bool:
        """End the running statement of this id; False where none runs."""
        body = {"run_id": run_id}
        answer = self._connection.ask(CancelledRun, "POST", "sql/cancel/", body)
        return answer["was_running"]

    def sql_runs(self) -> list[StatementRunRow]:
        """Statements that the token's owner ran, newest first."""
        return self._connection.get(list[StatementRunRow], "sql/runs/")

    def rows(
        self,
        slug: str,
        *,
        where: str = "",
        columns: Sequence[str] = (),
        as_of: str | None = None,
        order_by: str = "",
        limit: int = 100,
        cursor: str | None = None,
    ) -> TableRows:
        """Rows of a table, now or at the completion time `as_of`; `is_cut` says whether there are
        more, which `next_cursor` brings as `cursor` of the same question. `order_by` sorts by a
        column, descending with `-` before its name. Raises ProblemError: `rows_refused`, whose
        `values.field` names what does not fit, `rows_gone`, `sql_limit`, `sql_busy`.
        """
        query = {"where": where or None, "columns": columns or None, "as_of": as_of, "limit": limit}
        query |= {"order_by": order_by or None, "cursor": cursor}
        return self._connection.get(TableRows, f"{table_path(slug)}rows/", query)

    def rows_plan(self, slug: str, *, where: str = "", as_of: str | None = None) -> RowsPlan:
        """Plan a read of rows with this filter: what it opens and leaves out, and the null shares
        of all columns by the statistics of base files.
        """
        query = {"where": where or None, "as_of": as_of}
        return self._connection.get(RowsPlan, f"{table_path(slug)}rows/plan/", query)

    def row_history(self, slug: str, key: str, *, partition: str | None = None) -> RowVersions:
        """Every known version of the row with this record key, newest first."""
        query = {"key": key, "partition": partition}
        return self._connection.get(RowVersions, f"{table_path(slug)}rows/history/", query)

    def changes(
        self,
        slug: str,
        instant: str,
        *,
        limit: int = 100,
        partition: str = "",
        file_id: str = "",
    ) -> ChangedRows:
        """What one commit inserted, updated and deleted: all of it, or in one file group."""
        path = f"{table_path(slug)}instants/{segment(instant)}/changes/"
        query = {"limit": limit, "partition": partition or None, "file_id": file_id or None}
        return self._connection.get(ChangedRows, path, query)

    def differences(self, slug: str, earlier: str, later: str, *, limit: int = 100) -> ChangedRows:
        """Rows that are other ones at the completion time `later` than at `earlier`."""
        query = {"earlier": earlier, "later": later, "limit": limit}
        return self._connection.get(ChangedRows, f"{table_path(slug)}rows/differences/", query)

    def saved_queries(self) -> list[SavedQueryRow]:
        """Queries of the token's owner, and those that others share with him."""
        return self._connection.get(list[SavedQueryRow], "saved-queries/")

    # History

    def instants(
        self,
        slug: str,
        *,
        actions: Sequence[str] | None = None,
        states: Sequence[str] | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Iterator[InstantRow]:
        """Instants of a table, newest first; `since` and `until` as ISO 8601 with a time zone."""
        query = {"actions": actions, "states": states, "since": since, "until": until}
        return self._connection.pages(f"{table_path(slug)}instants/", query)

    def conflicts(self, slug: str, *, writer: str | None = None) -> Iterator[ConflictRow]:
        """Writes that lost, newest first."""
        return self._connection.pages(f"{table_path(slug)}conflicts/", {"writer": writer})

    def writers(self, slug: str) -> list[WriterRow]:
        """Writers whose heartbeat is there, alive or not."""
        return self._connection.get(list[WriterRow], f"{table_path(slug)}writers/")

    def marker_server(self) -> MarkerServerStatus:
        """Return the marker server's state, its last 5 minutes and what batching saved."""
        return self._connection.get(MarkerServerStatus, "marker-server/")

    def marker_directories(self, slug: str) -> list[MarkerDirectoryRow]:
        """Return the markers of each pending or orphaned instant, oldest first."""
        return self._connection.get(
            list[MarkerDirectoryRow], f"{table_path(slug)}markers/directories/"
        )

    def health(self, slug: str) -> list[Check]:
        """The health checks of a table, each with what is so and what to do."""
        return self._connection.get(list[Check], f"{table_path(slug)}health/")

    def schedules(self, slug: str) -> list[ScheduleRow]:
        """What is asked for on the table again and again, and when it is due next."""
        return self._connection.get(list[ScheduleRow], f"{table_path(slug)}schedules/")

    def schedule_days(self, *, days: int = 14) -> list[ScheduleDayRow]:
        """Runs of all schedules by day in UTC; days without a run are left out."""
        return self._connection.get(list[ScheduleDayRow], "schedules/days/", {"days": days})

    def trends(self, slug: str, *, days: int = 30) -> Trends:
        """Commits, rows, bytes, durations, gaps and event lag of the last days."""
        return self._connection.get(Trends, f"{table_path(slug)}trends/", {"days": days})

    def table_settings(self, slug: str) -> list[TableSettingRow]:
        """Return every option of a table with the value that applies, and its source."""
        return self._connection.get(list[TableSettingRow], f"{table_path(slug)}settings/")

    def alerts(self, *, state: str | None = None) -> list[AlertRow]:
        """Alerts of the tables that the token's owner sees: `firing` where no state is given,
        `silenced` or `resolved`.
        """
        return self._connection.get(list[AlertRow], "alerts/", {"state": state})

    def audit(
        self, *, who: str | None = None, what: str | None = None, subject: str | None = None
    ) -> Iterator[AuditRow]:
        """The audit, newest first; for admins and auditors."""
        query = {"who": who, "what": what, "object": subject}
        return self._connection.pages("audit/", query)

    # Files

    def save_list(
        self, address: str, to: IO[bytes], *, file_format: str = "csv", **filters: Any
    ) -> None:
        """All rows of a list as a file: `csv`, `jsonl` or `parquet`. `address` as the document has
        it below `/api/v1/`, such as `operations/` or `tables/trips/instants/`; filters as there,
        `fields` and `sort` among them.
        """
        self._connection.save(address, {**filters, "file_format": file_format}, to)

    # Operations

    def operations(
        self, *, states: Sequence[str] | None = None, kinds: Sequence[str] | None = None
    ) -> Iterator[OperationRow]:
        """Operations on every table that the token's owner sees, newest first."""
        return self._connection.pages("operations/", {"states": states, "kinds": kinds})

    def operation(self, operation_id: str) -> OperationDetail:
        """One operation, as it stands: `row["state"]`, `row["progress_pct"]`, `row["message"]`."""
        return self._connection.get(OperationDetail, f"operations/{segment(operation_id)}/")

    def wait(self, operation_id: str, *, timeout_s: float | None = None) -> OperationDetail:
        """The operation once it has succeeded. Raises OperationFailed when it ends otherwise, and
        TimeoutError when it is not over by then; it goes on.
        """
        ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            detail = self.operation(operation_id)
            row = detail["row"]
            if row["is_final"]:
                if row["state"] != "succeeded":
                    raise OperationFailed(operation_id, row["state"], row["message"])
                return detail
            if ends_s is not None and time.monotonic() > ends_s:
                raise TimeoutError(f"operation {operation_id} is {row['state']}")
            time.sleep(_WAIT_S)

    def overwrite(
        self,
        slug: str,
        source: Mapping[str, Any],
        plan: OverwritePlan,
        *,
        reason: str,
        key: str | None = None,
    ) -> OperationDetail:
        """Carry out the plan that was looked at, with the same source. Refused as `plan_changed`
        once the table moved on.
        """
        operation = plan["operation"]
        return self.write(slug, source, operation=operation, plan=plan, reason=reason, key=key)

    def upload(self, file: str | PathLike[str]) -> UploadRow:
        """Send a CSV, JSON lines or Parquet file of this machine to the node. `path` of the result
        is what a source of a write, an overwrite or a delete names it by:
        `{"kind": "csv", "path": upload["path"]}`. The node removes it once it was loaded. Raises
        OSError for a file that cannot be read.
        """
        source = Path(file)
        with source.open("rb") as stream:
            row: UploadRow = self._connection.send_file("uploads/", {"name": source.name}, stream)
        return row

    def uploads(self) -> list[UploadRow]:
        """List the files that you sent and that are not removed yet, the newest first."""
        return self._connection.get(list[UploadRow], "uploads/")

    def approvals(self, *, state: str | None = None) -> list[ApprovalRow]:
        """What awaits a second person: `pending` where no state is given, or `decided`."""
        return self._connection.get(list[ApprovalRow], "approvals/", {"state": state})

    def approval(self, operation_id: str) -> ApprovalDetail:
        """What one operation awaits, with its plan as it is now where the token's owner may
        decide.
        """
        return self._connection.get(ApprovalDetail, _approval(operation_id))

    def approve(self, detail: ApprovalDetail, *, reason: str) -> ApprovalDetail:
        """Have it run in its requester's name, as it was looked at. Refused as `plan_changed` once
        the table moved on, and to whoever asked for it.
        """
        body = {"plan_hash": detail["row"]["plan_hash"], "reason": reason}
        path = f"{_approval(detail['row']['operation'])}approve/"
        return self._connection.ask(ApprovalDetail, "POST", path, body)

    def decline(self, operation_id: str, *, reason: str) -> ApprovalDetail:
        """End it before it has begun."""
        path = f"{_approval(operation_id)}decline/"
        return self._connection.ask(ApprovalDetail, "POST", path, {"reason": reason})


def _approval(operation_id: str) -> str:
    return f"approvals/{segment(operation_id)}/"
