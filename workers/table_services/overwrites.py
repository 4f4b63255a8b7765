"""The services `insert_overwrite` and `insert_overwrite_table`: rows of a file in the place of what
their partitions, or the table, hold now. The replaced files stay until a clean.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from workers.concurrency.outcome import CommitOutcome
from workers.errors import EarlyConflict, InvalidInput
from workers.options.write_options import WriteOptions, write_options
from workers.schema.table_schema import TableSchema
from workers.storage.base import get_size
from workers.table.file_group import FileSlice
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.table_services.deletes.outcome import check_committed
from workers.table_services.input_rows import FILE_KEYS, PATH_KEY, digest_input, read_input_rows
from workers.table_services.replaced_rows import add_sample
from workers.table_services.service import (
    PlanItem,
    Progress,
    ServiceOutcome,
    ServicePlan,
    ServiceRequest,
)
from workers.write.client import WriteClient
from workers.write.columns import writer_schema
from workers.write.handles import write_file_groups
from workers.write.prepare import find_partition_paths, prepare
from workers.write.read_set import build_read_set
from workers.write.request import WriteRequest, check_request
from workers.write.retry import with_retries
from workers.write.status import TaskIds

Replacing = Literal["insert_overwrite", "insert_overwrite_table"]


@dataclass(frozen=True, slots=True)
class _Incoming:
    """What the file brings."""

    path: str
    digest: str
    rows: pa.Table


class Overwrite:
    """The service of the name of its operation."""

    def __init__(self, operation: Replacing) -> None:
        self._operation = operation

    @property
    def name(self) -> str:
        """Implement Service."""
        return self._operation

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """Parameters: `path` of a file with the rows, and the options of its load, as `manage.py
        write` has them.
        """
        table_schema = load_schema(table)
        incoming = _incoming(table, parameters, table_schema)
        request = WriteRequest(self._operation)
        check_request(table, write_options({}), request)
        schema = writer_schema(
            table, write_options({}), request, incoming.rows.schema, table_schema
        )
        touched = find_partition_paths(table.config, schema, incoming.rows)
        slices = FileSystemView.load(table).slices
        replaced = [slice_ for slice_ in slices if self._replaces(slice_, touched)]
        return add_sample(self._plan(table, incoming, touched, slices), table, replaced)

    def run(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        on_progress: Progress | None = None,
    ) -> ServiceOutcome:
        """Run as `Service.run`. Raises PlanChanged as well if another writer committed first."""
        incoming = _incoming(table, request.parameters, load_schema(table))
        plan = self._plan(table, incoming, (), ())

        def attempt(number: int) -> CommitOutcome:
            nonlocal plan
            plan, outcome = self._attempt(table, request, options, incoming, on_progress, number)
            return outcome

        instant = check_committed(with_retries(table, options, attempt), service=self.name)
        rows, groups = plan.figures["rows"], plan.figures["file_groups"]
        summary = f"{_many(groups, 'file group')} replaced by {_many(rows, 'row')}"
        return ServiceOutcome(self.name, instant, summary, plan.figures)

    def _attempt(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        incoming: _Incoming,
        on_progress: Progress | None,
        number: int,
    ) -> tuple[ServicePlan, CommitOutcome]:
        write_request = WriteRequest(self._operation).for_attempt(number)
        transaction = WriteClient(table, options).begin(incoming.rows.schema, write_request)
        context = transaction.context
        plan = self._plan(table, incoming, (), ())
        try:
            # What the transaction started from is what it replaces, so that is what is compared.
            prepared = prepare(context, incoming.rows)
            touched = find_partition_paths(table.config, context.schema, incoming.rows)
            plan = self._plan(table, incoming, touched, context.slices.values())
            plan.check(request)
            if on_progress is not None:
                on_progress(0, len(plan.items))
            transaction.declare_reads(build_read_set(context, prepared, (), table.storage))
            statuses = write_file_groups(context, prepared, TaskIds(), table.storage)
        except EarlyConflict:
            return plan, transaction.lose_early()
        except Exception as error:
            transaction.fail(error)
            raise
        return plan, transaction.commit(statuses)

    @property
    def _is_of_table(self) -> bool:
        return self._operation == "insert_overwrite_table"

    def _replaces(self, slice_: FileSlice, touched: Collection[str]) -> bool:
        return self._is_of_table or slice_.partition in touched

    def _plan(
        self,
        table: Table,
        incoming: _Incoming,
        touched: Collection[str],
        slices: Iterable[FileSlice],
    ) -> ServicePlan:
        replaced = sorted(
            (slice_ for slice_ in slices if self._replaces(slice_, touched)),
            key=lambda file_slice: (file_slice.partition, file_slice.file_id),
        )
        files = tuple(
            PlanItem(path, "delete", get_size(table.storage, path))
            for slice_ in replaced
            for path in slice_.files
        )
        rows = incoming.rows.num_rows
        arrival = PlanItem(
            f"{rows} rows of {incoming.path}",
            "write",
            incoming.rows.nbytes,
            f"into {_many(len(touched), 'partition')}" if table.config.partition_by else "",
            digest=incoming.digest,
        )
        figures = {
            "rows": rows,
            "partitions": len(touched),
            "file_groups": len(replaced),
            "files": len(files),
            "bytes": sum(item.bytes for item in files),
        }
        return ServicePlan(
            service=self.name,
            summary=_summary(figures, is_whole_table=self._is_of_table),
            items=(*files, arrival),
            blockers=() if table.write_refusal is None else (table.write_refusal,),
            warnings=("readers of older snapshots keep the files until they are cleaned",),
            figures=figures,
        )


def _incoming(
    table: Table, parameters: Mapping[str, str], table_schema: TableSchema | None
) -> _Incoming:
    if unknown := sorted(set(parameters) - set(FILE_KEYS)):
        raise InvalidInput("unknown parameter", keys=unknown, known=FILE_KEYS)
    schema = table_schema.arrow if table_schema is not None else None
    rows = read_input_rows(parameters, schema, keys=table.config.record_key)
    if rows.num_rows == 0:
        raise InvalidInput(
            "the file has no rows, so nothing would replace what is there; use delete or "
            "delete_partition",
            **parameters,
        )
    return _Incoming(parameters[PATH_KEY].strip(), digest_input(parameters), rows)


def _summary(figures: Mapping[str, int], *, is_whole_table: bool) -> str:
    what = "the whole table" if is_whole_table else _many(figures["partitions"], "partition")
    groups, coming = _many(figures["file_groups"], "file group"), _many(figures["rows"], "row")
    return f"replace {what}: out with {groups}, in with {coming}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
