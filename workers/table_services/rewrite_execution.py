"""Carry out a plan that rewrites file groups: claim, rewrite each, validate and complete.

A plan that can no longer be carried out is discarded here, with everything written for it, so that
a new one can be scheduled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from workers.concurrency.rolled_back_commits import find_undone_schema
from workers.errors import (
    InvalidInput,
    MalformedTable,
    NotFound,
    PlanEmpty,
    PlanOvertaken,
    ServiceBusy,
)
from workers.files.compression import get_compression
from workers.options.write_options import WriteOptions
from workers.processes import this_process
from workers.schema.table_schema import TableSchema
from workers.table.schema_history import find_schema_at, load_schema
from workers.table.table import Table
from workers.table.view import VisibleFiles
from workers.table_services.execution import Claim, claim_plan, discard_plan
from workers.table_services.local_runner import LocalRunner, Runner
from workers.table_services.rewrite_context import GroupRewrite, RewriteContext
from workers.table_services.row_order import RowOrder
from workers.table_services.service import Progress
from workers.table_services.slices import order_visible_logs, sum_file_sizes
from workers.timeline.extra_metadata import DECIDED, PHASES_KEY, VALIDATED, encode_phases
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import (
    LOCK_KEY,
    OPERATION_KEY,
    ROWS_KEY,
    SCHEMA_KEY,
    WRITER_KEY,
    CommitMetadata,
    WriteStat,
)
from workers.timeline.pending_plans import parse_planned_slices
from workers.timeline.service_plans import PlannedSlice
from workers.timeline.timeline import Timeline

RunnerMaker = Callable[[Table, Sequence[int], int | None], Runner]
"""(table, bytes of each group, threads asked for) -> who rewrites the groups."""


class RewriteKind(Protocol):
    """The differences between compaction and clustering."""

    @property
    def service(self) -> str:
        """The name of the service, for messages and heartbeats."""

    @property
    def action(self) -> Action:
        """The action that its plans have on the timeline while they are pending."""

    def file_id(self, plan: Instant, old: PlannedSlice) -> str:
        """Return the id of the file group that the new base file belongs to. Raises
        MalformedTable.
        """
        ...

    def order_of_rows(self, schema: TableSchema) -> RowOrder | None:
        """Return the order of rows in new files; None keeps that of the slice. Raises
        InvalidInput.
        """
        ...

    def validate(
        self, table: Table, timeline: Timeline, plan: Instant, slices: Sequence[PlannedSlice]
    ) -> None:
        """Called under the table lock before the plan completes. Raises PlanOvertaken."""
        ...

    def metadata(
        self, stats: list[WriteStat], slices: Sequence[PlannedSlice], extra: dict[str, str]
    ) -> CommitMetadata:
        """Build the metadata of the completed plan's commit, with `stats` of the new files, and
        `extra`.
        """


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """A plan that was carried out, in figures."""

    instant: Instant
    file_groups: int
    log_files: int
    rows: int
    bytes_before: int
    bytes_after: int
    warnings: tuple[str, ...] = ()

    @property
    def figures(self) -> dict[str, int]:
        """The figures by name, as `ServiceOutcome.figures`."""
        return {
            "file_groups": self.file_groups,
            "log_files": self.log_files,
            "rows": self.rows,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
        }


def make_local_runner(table: Table, sizes: Sequence[int], threads: int | None) -> Runner:
    """Return a Runner for this process; a RunnerMaker."""
    return LocalRunner(table.storage, sizes, threads)


def carry_out(
    table: Table,
    options: WriteOptions,
    plan: Instant,
    kind: RewriteKind,
    *,
    make_runner: RunnerMaker = make_local_runner,
    threads: int | None = None,
    on_progress: Progress | None = None,
) -> RewriteResult:
    """Rewrite the file groups of a pending plan and commit them.

    Raises PlanOvertaken when the plan could not come true, and is gone; ServiceBusy,
    ServiceRefused, InstantRolledBack, LockTimeout with the plan still pending.
    """
    try:
        with claim_plan(
            table, options, plan.requested_at, kind.action, service=kind.service
        ) as claim:
            return _Execution(claim, options, kind, on_progress).run(make_runner, threads)
    except PlanOvertaken as overtaken:
        discard_plan(table, options, plan, reason=str(overtaken), by=kind.service)
        raise


class _Execution:
    def __init__(
        self, claim: Claim, options: WriteOptions, kind: RewriteKind, progress: Progress | None
    ) -> None:
        self._claim = claim
        self._table = claim.table
        self._options = options
        self._kind = kind
        self._progress = progress
        self._schema = find_schema_at(self._table, claim.timeline)

    def run(self, make_runner: RunnerMaker, threads: int | None) -> RewriteResult:
        slices = self._visible_slices(self._claim.timeline)
        sizes = self._sizes(slices)
        runner = make_runner(self._table, sizes, threads)
        groups = [
            GroupRewrite(number, slice_, self._kind.file_id(self._claim.instant, slice_))
            for number, slice_ in enumerate(slices)
        ]
        self._report(0, len(groups))
        try:
            stats = runner(self._context(), groups, lambda done: self._report(done, len(groups)))
        except NotFound as error:
            raise self._explain_missing(error) from error
        stats = sorted(stats, key=lambda stat: stat.path)
        done = self._claim.finish(
            lambda timeline: self._content(timeline, slices, stats),
            files=[stat.path for stat in stats],
        )
        return RewriteResult(
            done,
            file_groups=len(stats),
            log_files=sum(len(slice_.log_files) for slice_ in slices),
            rows=sum(stat.num_writes for stat in stats),
            bytes_before=sum(sizes),
            bytes_after=sum(stat.bytes for stat in stats),
            warnings=self._claim.warnings,
        )

    def _visible_slices(self, timeline: Timeline) -> list[PlannedSlice]:
        slices = parse_planned_slices(self._kind.action, self._claim.plan)
        if not slices:
            raise PlanEmpty("the plan is empty", instant=self._claim.instant.requested_at)
        visible = VisibleFiles(self._table, timeline, None)
        return [order_visible_logs(visible, slice_) for slice_ in slices]

    def _sizes(self, slices: Sequence[PlannedSlice]) -> list[int]:
        try:
            return [sum_file_sizes(self._table.storage, slice_.files) for slice_ in slices]
        except NotFound as error:
            raise self._explain_missing(error) from error

    def _explain_missing(self, error: NotFound) -> MalformedTable:
        """Build the error for a file that is not there. Raises ServiceBusy or InstantRolledBack if
        another attempt carried the plan out, whose files a clean may take since, and PlanOvertaken
        if the file went with its commit.
        """
        self._claim.confirm()
        self._visible_slices(self._table.timeline())
        return MalformedTable("a file that the plan needs is gone", **error.values)

    def _context(self) -> RewriteContext:
        table, claim = self._table, self._claim
        schema = load_schema(table, claim.timeline)
        if schema is None:
            raise MalformedTable("no commit carries a schema", table=table.storage.location)
        try:
            order = self._kind.order_of_rows(schema)
        except InvalidInput as error:  # The column was dropped since the plan was made.
            raise PlanOvertaken(error.message, **error.values) from error
        return RewriteContext(
            location=table.storage.location,
            instant=claim.instant.requested_at,
            attempt=claim.attempt,
            config=table.config,
            schema=schema,
            compression=get_compression(self._options.codec),
            order=order,
            begun_in=this_process(),
        )

    def _content(
        self, timeline: Timeline, slices: Sequence[PlannedSlice], stats: list[WriteStat]
    ) -> bytes:
        self._visible_slices(timeline)
        self._kind.validate(self._table, timeline, self._claim.instant, slices)
        clock = self._table.ports.clock
        validated_ms = clock.now_ms()
        # The table's schema now, whatever it was when the plan was made (E-08).
        schema = load_schema(self._table, timeline)
        assert schema is not None, "it was there when the claim was made"
        lost = find_undone_schema(self._table, self._schema, self._claim.timeline, timeline)
        if lost is not None:
            what = "the schema that the files were written under was rolled back; run it again"
            raise ServiceBusy(what, instant=lost.requested_at)
        extra = {
            SCHEMA_KEY: schema.avro_json,
            WRITER_KEY: self._options.writer or self._kind.service,
            ROWS_KEY: str(sum(stat.num_writes for stat in stats)),
            LOCK_KEY: self._claim.holding_text,
            PHASES_KEY: encode_phases({VALIDATED: validated_ms, DECIDED: clock.now_ms()}),
        }
        if self._options.operation_id:
            extra[OPERATION_KEY] = self._options.operation_id
        metadata = self._kind.metadata(stats, slices, extra)
        return metadata.encode(self._claim.instant.action)

    def _report(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)
