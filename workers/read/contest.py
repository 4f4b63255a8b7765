"""Rows of logs against those of their base file, some row groups at a time: whole rows, one of
which lives. By the keys, or by what is remembered of an earlier read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from workers.files.base_file import find_highest
from workers.files.meta_columns import RECORD_KEY
from workers.merge.merge import LaterRows
from workers.merge.versions import Mask, Positions
from workers.read.beside import are_all_newer
from workers.read.verdicts import Verdict


class Contest:
    """The contest of one slice. Call `begin` before anything else where there is a base file."""

    def __init__(self, newer: pa.Table, ordering: str | None, verdict: Verdict | None) -> None:
        self._newer = newer
        self._ordering = ordering
        self._verdict = verdict
        self._later = LaterRows(newer, ordering) if verdict is None else None
        self._rows_of: list[int] = []
        self._runs: list[RunContest] = []
        self.is_open = False
        """Whether a row of the base may be greater than those of the logs."""

    def begin(self, footer: pq.FileMetaData, stored: pa.Schema) -> None:
        """Looks at the footer: it may say that all rows of the logs are newer."""
        self._rows_of = [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
        if self._verdict is not None or self._ordering is None:
            return
        orderings = self._newer.column(self._ordering)
        highest = find_highest(footer, stored, pa.field(self._ordering, orderings.type))
        self.is_open = not are_all_newer(orderings, highest)

    @property
    def deciding(self) -> set[str]:
        """Columns of the base that are needed to judge its rows."""
        if self._verdict is not None:
            return set()
        return {RECORD_KEY, self._ordering} if self._ordering and self.is_open else {RECORD_KEY}

    def of_run(self, numbers: Sequence[int]) -> RunContest:
        """For the rows of these row groups, which pass once and in their order."""
        if self._verdict is not None:
            return RunContest(numbers, None, False, known=self._verdict.dead_in(numbers))
        run = RunContest(numbers, self._later, self.is_open)
        self._runs.append(run)
        return run

    def kept(self) -> Positions:
        """Versions of the logs that live, deletes among them, once all of the base has passed."""
        if self._verdict is not None:
            return self._verdict.kept_versions()
        assert self._later is not None
        return self._later.find_winners()

    def judged(self) -> Verdict | None:
        """What is worth remembering; None where it is known, or not all of the base has passed."""
        passed = sum(len(run.numbers) for run in self._runs)
        if self._verdict is not None or not passed or passed < len(self._rows_of):
            return None
        dead: dict[int, Mask] = {}
        for run in self._runs:
            ends = np.cumsum([self._rows_of[number] for number in run.numbers])
            mask = np.concatenate(run.masks) if run.masks else np.zeros(0, np.bool_)
            if len(mask) != ends[-1]:
                return None
            dead.update(zip(run.numbers, np.split(mask, ends[:-1]), strict=True))
        return Verdict.of(dead, self.kept())


@dataclass(slots=True)
class RunContest:
    """The contest of some row groups that follow each other."""

    numbers: Sequence[int]
    later: LaterRows | None
    competes: bool
    masks: list[Mask] = field(default_factory=list)
    known: Mask | None = None
    _passed: int = 0

    def dead(self, rows: pa.Table) -> Mask:
        """Which of the next rows give way."""
        if self.known is not None:
            start = self._passed
            self._passed += rows.num_rows
            return self.known[start : self._passed]
        assert self.later is not None
        mask = self.later.find_losers(rows, competes=self.competes)
        self.masks.append(mask)
        return mask
