"""The service `delete_partition`: empty whole partitions. Their files stay until a clean."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sized
from typing import Final

from workers.concurrency.outcome import CommitOutcome
from workers.concurrency.read_set import ReadSet
from workers.errors import InvalidInput
from workers.options.write_options import WriteOptions, write_options
from workers.storage.base import get_size
from workers.table.file_group import FileSlice
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.table_services.deletes.outcome import check_committed
from workers.table_services.replaced_rows import add_sample
from workers.table_services.service import (
    PlanItem,
    Progress,
    ServiceOutcome,
    ServicePlan,
    ServiceRequest,
)
from workers.write.client import WriteClient
from workers.write.request import WriteRequest, check_request
from workers.write.retry import with_retries

PARTITIONS_KEY = "partitions"
_NAME: Final = "delete_partition"


class DeletePartition:
    """The service `delete_partition`."""

    name = _NAME

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """Parameter: `partitions`, paths with commas between them or a JSON list."""
        paths = _paths(parameters)
        check_request(table, write_options({}), WriteRequest(_NAME, partitions=paths))
        slices = FileSystemView.load(table).slices
        replaced = [slice_ for slice_ in slices if slice_.partition in paths]
        return add_sample(_plan(table, paths, slices), table, replaced)

    def run(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        on_progress: Progress | None = None,
    ) -> ServiceOutcome:
        """Run as `Service.run`. Raises PlanChanged as well if another writer committed first."""
        paths = _paths(request.parameters)
        write_request = WriteRequest(_NAME, partitions=paths)
        plan = _plan(table, paths, ())

        def attempt(number: int) -> CommitOutcome:
            nonlocal plan
            transaction = WriteClient(table, options).begin(None, write_request.for_attempt(number))
            try:
                # What the transaction started from is what it deletes, so that is what is compared.
                plan = _plan(table, paths, transaction.context.slices.values())
                plan.check(request)
                transaction.declare_reads(ReadSet())
            except Exception as error:
                transaction.fail(error)
                raise
            return transaction.commit([])

        instant = check_committed(with_retries(table, options, attempt), service=_NAME)
        return ServiceOutcome(_NAME, instant, f"emptied {', '.join(paths)}", plan.figures)


def _plan(table: Table, paths: tuple[str, ...], slices: Iterable[FileSlice]) -> ServicePlan:
    replaced = sorted(
        (slice_ for slice_ in slices if slice_.partition in paths),
        key=lambda file_slice: (file_slice.partition, file_slice.file_id),
    )
    items = tuple(
        PlanItem(path, "delete", get_size(table.storage, path))
        for slice_ in replaced
        for path in slice_.files
    )
    return ServicePlan(
        service=_NAME,
        summary=f"empty {_count(paths, 'partition')}: {_count(replaced, 'file group')}, "
        f"{_count(items, 'file')}",
        items=items,
        blockers=() if table.write_refusal is None else (table.write_refusal,),
        warnings=("readers of older snapshots keep the files until they are cleaned",),
        figures={
            "partitions": len(paths),
            "file_groups": len(replaced),
            "files": len(items),
            "bytes": sum(item.bytes for item in items),
        },
    )


def _count(things: Sized, name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def _paths(parameters: Mapping[str, str]) -> tuple[str, ...]:
    if unknown := sorted(set(parameters) - {PARTITIONS_KEY}):
        raise InvalidInput("unknown parameter", keys=unknown, known=[PARTITIONS_KEY])
    text = parameters.get(PARTITIONS_KEY, "").strip()
    listed_paths = _from_json(text) if text.startswith("[") else text.split(",")
    paths = tuple(sorted({path.strip().strip("/") for path in listed_paths} - {""}))
    if not paths:
        raise InvalidInput("delete_partition needs the partitions to delete", key=PARTITIONS_KEY)
    return paths


def _from_json(text: str) -> list[str]:
    try:
        paths = json.loads(text)
    except ValueError as error:
        raise InvalidInput("partitions must be a JSON list", text=text[:80]) from error
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise InvalidInput("partitions are a list of texts", text=text[:80])
    return paths
