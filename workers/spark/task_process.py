"""The Python process that runs our tasks, one after the other: Spark keeps it for the next.

Before each task PySpark has Python forget what lies where. A zip importer then reads its archive's
directory anew, and there is one for every package that came from PySpark's archive: of nearly two
thousand files, sixteen times, a quarter of a second of processor time. After each task it collects
garbage among everything that was ever imported.
"""

from __future__ import annotations

import gc
import sys
from functools import cache
from zipimport import zipimporter

from pyspark import TaskContext

from workers.write.status import TaskIds


def spare_next_task() -> None:
    """Called by every task, it takes the cost of both from the tasks that follow."""
    # Only a cache: whoever imports from an archive again makes an importer again.
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]
    _keep_what_is_imported()


def task_ids() -> TaskIds:
    """The ids of the attempt that runs here. Its attempt id is unique in the application,
    so retries and speculative copies never meet.
    """
    task = TaskContext.get()
    assert task is not None, "this runs on executors"
    return TaskIds(task.partitionId(), task.stageId(), task.taskAttemptId())


@cache
def _keep_what_is_imported() -> None:
    """Once: modules stay for as long as the process."""
    gc.collect()
    gc.freeze()
