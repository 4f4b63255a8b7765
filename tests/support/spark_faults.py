"""What goes wrong in tasks and drivers, importable by executors and by processes of their own."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from workers.spark.row_jobs import write_owned
from workers.spark.table_services import write_group
from workers.storage.base import Storage
from workers.table_services.rewrite_context import GroupRewrite, RewriteContext
from workers.timeline.metadata import WriteStat
from workers.write.context import WriteContext
from workers.write.staging import StagedGroup
from workers.write.status import WriteStatus

_LINGERS_S = 60.0


def write_then_fail_once(context: WriteContext, groups: Sequence[StagedGroup]) -> list[WriteStatus]:
    """The first attempt writes everything and dies before it can say so."""
    answers = write_owned(context, groups)
    task = TaskContext.get()
    assert task is not None
    if task.attemptNumber() == 0 and answers:
        raise RuntimeError("this attempt dies after writing")
    return answers


def write_then_linger_once(
    flags: str, context: WriteContext, groups: Sequence[StagedGroup]
) -> list[WriteStatus]:
    """The first attempt to get here writes its files and then says nothing for a long time."""
    answers = write_owned(context, groups)
    if answers and _is_first(flags):
        time.sleep(_LINGERS_S)
    return answers


def linger_once_before_writing(
    flags: str, context: WriteContext, groups: Sequence[StagedGroup]
) -> list[WriteStatus]:
    """The first attempt to get here sleeps long enough to meet a rival, then writes."""
    if _is_first(flags):
        time.sleep(_LINGERS_S)
    return write_owned(context, groups)


def start_then_wait_for_the_rival(
    flags: str, context: WriteContext, groups: Sequence[StagedGroup]
) -> list[WriteStatus]:
    """Every attempt says that it started, and writes once somebody made the file `rival`."""
    say_that_it_started(flags)
    _wait_for_the_rival(flags)
    return write_owned(context, groups)


def start_then_rewrite_after_the_rival(
    flags: str, context: RewriteContext, group: GroupRewrite, storage: Storage, task_attempt: int
) -> WriteStat:
    """The same for a task of a table service."""
    say_that_it_started(flags)
    _wait_for_the_rival(flags)
    return write_group(context, group, storage, task_attempt)


def started(flags: Path) -> list[str]:
    """`started-<task>-<attempt>` of each that said so."""
    return sorted(path.name for path in flags.glob("started-*"))


def say_that_it_started(flags: str) -> None:
    task = TaskContext.get()
    assert task is not None
    (Path(flags) / f"started-{task.partitionId()}-{task.attemptNumber()}").touch()


def _wait_for_the_rival(flags: str) -> None:
    deadline_s = time.monotonic() + _LINGERS_S
    while not (Path(flags) / "rival").exists() and time.monotonic() < deadline_s:
        time.sleep(0.02)


def linger(flags: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a source that is slow."""
    say_that_it_started(flags)
    time.sleep(_LINGERS_S)
    yield from batches


def write_then_lose_executor_once(
    flags: str, context: WriteContext, groups: Sequence[StagedGroup]
) -> list[WriteStatus]:
    """The first attempt to get here writes its files, and its executor is killed."""
    answers = write_owned(context, groups)
    if answers and _is_first(flags):
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        executor = int(daemon.rpartition(")")[2].split()[1])
        os.kill(executor, signal.SIGKILL)
        time.sleep(_LINGERS_S)
    return answers


def _is_first(flags: str) -> bool:
    try:
        (Path(flags) / "first").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def write_many_partitions(location: str, remote: str, session_id: str, operation_id: str) -> None:
    """A client whose tasks write for many seconds, to be killed in the middle."""
    from workers.lakehouse import open_table
    from workers.spark.session import connect_session
    from workers.spark.write import write_dataframe

    spark = connect_session(
        remote,
        session_id=session_id,
        user_id="tests",
        settings={"spark.sql.shuffle.partitions": "4"},
    )
    frame = spark.range(6_000).selectExpr(
        "cast(id as string) as id", "id as ts", "concat('p', id % 3000) as part"
    )
    options = {
        "hoodie.write.markers.type": "direct",
        "sluice.writer.name": "victim",
        "sluice.operation.id": operation_id,
    }
    write_dataframe(open_table(location).table, frame, options=options)


if __name__ == "__main__":
    write_many_partitions(*sys.argv[1:])
