"""A writer that was overtaken dies at every call of its commit: what states it again is there
exactly where the commit is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from tests.crash.harness import COW, MOR, NBCC, Kind, State, Trial, create_with_three_rows
from tests.crash.operations import Operation, Options, rows
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import MemoryStorage
from workers.concurrency import transaction
from workers.concurrency.heartbeat import HeartbeatContent, HeartbeatKeeper
from workers.concurrency.outcome import CommitOutcome, Committed
from workers.lakehouse import LakehouseTable, open_table, write_arrow
from workers.options.write_options import write_options
from workers.timeline.metadata import RESTATES_KEY, WRITER_KEY, read_commit_metadata
from workers.write.client import Transaction, WriteRequest, build_start_context
from workers.write.handles import write_file_groups
from workers.write.prepare import prepare
from workers.write.status import TaskIds

LATE = rows(("a", 2, "Bergen", "p")).append_column("note", pa.array(["late"]))
RIVAL = rows(("c", 2, "Cusco", "q"))
SAME_KEY = rows(("a", 2, "Moss", "p"))


def overtaken(kind: Kind, late: pa.Table, rival: pa.Table) -> tuple[State, Operation]:
    """A table on which `late` is written and not committed, and `rival` began later and has; and
    the commit of the late one, as an operation of whichever process.
    """
    clock = StillClock()
    storage = MemoryStorage(clock)
    create_with_three_rows(kind, storage, still_ports(clock, prefix="setup"))
    table = open_table(storage.location, ports=still_ports(clock, prefix="late"), storage=storage)
    options, request = write_options(kind.options), WriteRequest()
    content = HeartbeatContent(options, "late", "upsert", None)
    started = transaction.begin(table.table, options, content)
    attempt = Transaction(table.table, options, "late", request, started)
    attempt.context = build_start_context(
        table.table, options, request, started, writer="late", batch_schema=late.schema
    )
    written = write_file_groups(attempt.context, prepare(attempt.context, late), TaskIds(), storage)
    other = open_table(storage.location, ports=still_ports(clock, prefix="rival"), storage=storage)
    assert isinstance(write_arrow(other.table, rival, request, kind.options), Committed)

    def commit(dying: LakehouseTable, _: Options) -> CommitOutcome:
        beating = HeartbeatKeeper(
            dying.table.storage, dying.table.ports, started.instant.requested_at, content
        )
        anew = Transaction(
            dying.table, options, "late", request, replace(started, heartbeat=beating)
        )
        anew.context = attempt.context
        return anew.commit(written)

    clock.sleep(1)
    return State(storage.files, clock.now_ms()), Operation("overtaken", commit)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("kind", [COW, MOR, NBCC], ids=lambda kind: kind.name)
def test_a_schema_is_stated_again_or_not_committed_whatever_call_dies(
    kind: Kind, run_trial: Callable[[Trial], int]
) -> None:
    state, commit = overtaken(kind, LATE, RIVAL)

    cases = run_trial(trial := Trial(kind, commit, state))

    assert cases >= commit.cases_least
    assert_follows(trial)


@pytest.mark.slow
def test_rows_are_written_again_or_not_committed_whatever_call_dies(
    run_trial: Callable[[Trial], int],
) -> None:
    """hudi-rs, which judges every end, would see the rival's row of the same age."""
    state, commit = overtaken(NBCC, LATE.drop_columns(["note"]), SAME_KEY)

    cases = run_trial(trial := Trial(NBCC, commit, state))

    assert cases >= commit.cases_least
    assert_follows(trial)


def assert_follows(trial: Trial) -> None:
    """In every end: another engine sees the late commit as we do, or nobody sees it."""
    ends = [case.deaths[-1] for case in trial.cases.values()]
    endings = {_restated(end) for end in ends}
    assert endings == {(False, False), (True, True)}, endings


def _restated(end: State) -> tuple[bool, bool]:
    """Whether the late writer's commit stands, and whether something states it again."""
    storage = MemoryStorage(StillClock(end.now_ms), end.files)
    table = open_table(storage.location, storage=storage).table
    commits = [
        read_commit_metadata(storage.read(table.layout.path(one)))
        for one in table.timeline().list_completed_writes()
    ]
    again = [RESTATES_KEY in one.extra_metadata for one in commits]
    late = [one for one in commits if one.extra_metadata.get(WRITER_KEY) == "late"]
    return bool(late), any(again)
