"""How many keys of a table Apache Hudi and hudi-rs read otherwise than Sluice: what commits tell,
until a commit tells something else or the file group is merged into a base file. Of what the mirror
holds of instants and file groups, inside the sync's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controlplane.mirror.file_facts import FileGroupFacts
from controlplane.mirror.models import FileGroupRecord, InstantRecord
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.timeline.extra_metadata import CommittedCounts, remaining_counts
from workers.timeline.instant import State


def read_otherwise_now(table: Table, left_out: Iterable[FileGroupFacts] = ()) -> dict[str, Any]:
    """Return `keys`, `file_groups` and `told_by`, the newest commit with such keys; nothing if
    there are none. `left_out`: the file groups that have no row.
    """
    commits = list(
        InstantRecord.objects.filter(
            table=table, state=State.COMPLETED.value, metadata__has_key="read_otherwise"
        )
        .order_by("completed_at")
        .values_list("requested_at", "completed_at", "metadata__read_otherwise")
    )
    if not commits:
        return {}
    keys_by_commit = [
        CommittedCounts(
            completed_at or "", {(part, file_id): keys for part, file_id, keys in listed}
        )
        for _, completed_at, listed in commits
    ]
    counts = remaining_counts(keys_by_commit, _base_instants(table, left_out))
    if not counts:
        return {}
    shared_groups = (commit.counts.keys() & counts.keys() for commit in keys_by_commit)
    newest = max(row[0] for row, groups in zip(commits, shared_groups, strict=True) if groups)
    return {"keys": sum(counts.values()), "file_groups": len(counts), "told_by": newest}


def _base_instants(
    table: Table, left_out: Iterable[FileGroupFacts]
) -> dict[tuple[str, str], InstantTime | None]:
    file_groups = FileGroupRecord.objects.filter(table=table, is_replaced=False)
    rows = file_groups.values_list("partition", "file_id", "base_instant")
    others = {
        (group.partition, group.file_id): group.slices[0].base_instant
        for group in left_out
        if not group.is_replaced
    }
    return others | {(partition, file_id): instant for partition, file_id, instant in rows}
