"""Deaths while several file groups are written beside each other: any of their files may be there,
half there or not at all, and recovery ends in the old table or the new one all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from io import BytesIO
from itertools import product
from typing import IO

import pytest

from tests.crash.harness import COW, COW_GLOBAL, MOR, NBCC, Kind, Trial, made
from tests.crash.operations import (
    CLUSTER_BESIDE,
    COMPACT_BESIDE,
    DELETE,
    MOVE,
    UPSERT,
    UPSERT_THREE,
    Operation,
)
from tests.support.crash_ports import StillClock
from tests.support.memory_storage import Files, RecordingStorage
from workers.durability import Durability

WAIT_MAX_S = 20


class MeetingStorage(RecordingStorage):
    """The data files of an operation, so many, end at the same time: each thread waits there for
    the others. A death then leaves any mixture of them.
    """

    def __init__(self, clock: StillClock, files: Files, *, files_together: int) -> None:
        super().__init__(clock, files)
        self._contents: dict[str, bytes] = {}
        self._all = threading.Barrier(files_together, self._note_mixtures)
        self._changing = threading.RLock()

    @contextmanager
    def create_data(
        self, path: str, durability: Durability = Durability.DURABLE
    ) -> Iterator[IO[bytes]]:
        stream = BytesIO()
        yield stream
        with self._changing:
            self._contents[path] = stream.getvalue()
        self._all.wait(WAIT_MAX_S)
        self._change({path: stream.getvalue()})

    def _change(self, *changes: object, **half: object) -> None:
        with self._changing:
            super()._change(*changes, **half)  # type: ignore[arg-type]

    def _note_mixtures(self) -> None:
        """Every one of the files absent, half or whole."""
        for mixture in product((None, 0.5, 1), repeat=len(self._contents)):
            self._note()
            for (path, content), share in zip(self._contents.items(), mixture, strict=True):
                if share is not None:
                    half = content[: int(len(content) * share)]
                    self._put_all(self.left[-1][0], {path: half})


TRIALS: list[tuple[Kind, Operation, int]] = [
    (COW, UPSERT, 2),
    (COW, UPSERT_THREE, 3),
    (COW, DELETE, 2),
    (COW_GLOBAL, MOVE, 3),
    (MOR, UPSERT, 2),
    (MOR, DELETE, 2),
    (NBCC, UPSERT_THREE, 3),
    (COW, CLUSTER_BESIDE, 3),
    (MOR, COMPACT_BESIDE, 2),
]


@pytest.mark.slow
@pytest.mark.sampled(every=6)
@pytest.mark.parametrize(
    ("kind", "operation", "files"),
    TRIALS,
    ids=[f"{operation.name}-{kind.name}" for kind, operation, _ in TRIALS],
)
def test_table_is_old_or_new_whichever_files_of_several_are_there(
    kind: Kind, operation: Operation, files: int, run_trial: Callable[[Trial], int]
) -> None:
    on_threads = replace(kind, threads=files)
    meeting = partial(MeetingStorage, files_together=files)
    start = made(kind, operation.needs)

    cases = run_trial(Trial(on_threads, operation, start, every=4, recorded_by=meeting))

    assert cases >= 3**files
