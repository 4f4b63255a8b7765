"""Topic and table of a simulation, and the judgement of what the table holds."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from workers.sink.coordinator_events import (
    BeginFailed,
    Begun,
    CommitFailed,
    CommitResult,
    Committed,
    NothingToRead,
)
from workers.sink.messages import Outcome, Report
from workers.sink.offsets import Attempt, SinkCommit, Stale

TOPIC, TOPIC_ID = "t", "id"
Check = Callable[[SinkCommit, Attempt], Stale | None]


class Violation(Exception):
    """An invariant does not hold; its name comes first."""


@dataclass(slots=True)
class Partition:
    offsets: list[int] = field(default_factory=list)
    """Of the records that are there; between them are markers and what compaction took."""
    low: int = 0
    high: int = 0

    def produce(self, rng: random.Random, count: int, gap_chance: float) -> None:
        for _ in range(count):
            if rng.random() >= gap_chance:
                self.offsets.append(self.high)
            self.high += 1

    def between(self, start: int, end: int) -> list[int]:
        return self.offsets[bisect_left(self.offsets, start) : bisect_left(self.offsets, end)]

    def read(self, position: int, records_max: int) -> tuple[list[int], int]:
        """Records, and where the consumer stands after them; behind the last, past the markers."""
        at = bisect_left(self.offsets, position)
        records = self.offsets[at : at + records_max]
        is_end = at + records_max >= len(self.offsets)
        return records, self.high if is_end else records[-1] + 1


@dataclass(frozen=True, slots=True)
class Pending:
    epoch: int
    bases: dict[int, int]
    starts: dict[int, int]


@dataclass(frozen=True, slots=True)
class CommitRecord:
    instant: str
    epoch: int
    starts: dict[int, int]
    ends: dict[int, int]
    offsets: dict[int, int]
    files: frozenset[int]
    """Those that the reports name."""


@dataclass(slots=True)
class Ledger:
    """The table. Each method is atomic, as decisions under the table lock are.

    Files are visible as in Hudi: by the instant in their name, whether a report names them or not.
    """

    topic: dict[int, Partition]
    check: Check
    random: random.Random
    commits: list[CommitRecord] = field(default_factory=list)
    pending: dict[str, Pending] = field(default_factory=dict)
    rolled_back: set[str] = field(default_factory=set)
    files: dict[int, tuple[str, int, list[int]]] = field(default_factory=dict)
    """Number to instant, partition and the offsets of the rows."""
    epoch: int = 0
    launches: int = 0
    columns: int = 0
    _instants: int = 0
    _files: int = 0

    def launch(self) -> int:
        """A new run: whatever coordinator an earlier one has, it gets no epoch any more."""
        self.launches += 1
        return self.launches

    def acquire(self, launch: int) -> int | None:
        if launch < self.launches:
            return None
        self.epoch += 1
        return self.epoch

    def last_commit(self) -> SinkCommit:
        if not self.commits:
            return SinkCommit()
        last = self.commits[-1]
        return SinkCommit(last.offsets, last.epoch, last.instant, TOPIC, TOPIC_ID)

    def begin(self, epoch: int, now_ms: int) -> Begun | NothingToRead | BeginFailed:
        for instant in [key for key, one in self.pending.items() if one.epoch <= epoch]:
            if self.random.random() < 0.5:  # The other half is left, as by a storage that fails.
                self.abort(instant)
        stands = self.last_commit().offsets
        starts = {
            one: max(stands.get(one, 0), partition.low) for one, partition in self.topic.items()
        }
        if all(starts[one] == self.topic[one].high for one in starts):
            return NothingToRead(now_ms)
        self._instants += 1
        instant = f"{self._instants:017d}"
        bases = {one: stands[one] for one in starts if one in stands}
        self.pending[instant] = Pending(epoch, bases, starts)
        return Begun(instant, starts, str(self.columns), "", now_ms)

    def commit(self, instant: str, reports: Sequence[Report]) -> CommitResult:
        if any(one.instant == instant for one in self.commits):
            return Committed(self.commits[-1].offsets)
        pending = self.pending.get(instant)
        if pending is None:
            return CommitFailed("rolled back")
        ends = pending.starts | {one.partition: one.end for one in reports}
        attempt = Attempt(pending.epoch, TOPIC, TOPIC_ID, pending.bases, pending.starts, ends)
        if stale := self.check(self.last_commit(), attempt):
            return stale
        offsets = {**self.last_commit().offsets, **ends}
        files = frozenset(int(name) for one in reports for name in one.statuses)
        record = CommitRecord(instant, pending.epoch, pending.starts, ends, offsets, files)
        self._judge(record, reports)
        self.commits.append(record)
        del self.pending[instant]
        return Committed(offsets)

    def settle(self, instant: str) -> Committed | CommitFailed:
        for commit in self.commits:
            if commit.instant == instant:
                return Committed(commit.offsets)
        self.abort(instant)
        return CommitFailed("rolled back")

    def abort(self, instant: str) -> None:
        if self.pending.pop(instant, None) is None:
            return
        self.rolled_back.add(instant)
        self.delete(key for key, one in list(self.files.items()) if one[0] == instant)

    def restore(self) -> None:
        """An operator takes back the last commit: offsets and rows go together."""
        last = self.commits.pop()
        self.rolled_back.add(last.instant)
        self.delete(key for key, one in list(self.files.items()) if one[0] == last.instant)

    def write(self, instant: str, partition: int, rows: list[int]) -> int:
        self._files += 1
        self.files[self._files] = (instant, partition, rows)
        return self._files

    def delete(self, files: Iterable[int]) -> None:
        for file in list(files):
            self.files.pop(file, None)

    def _judge(self, record: CommitRecord, reports: Sequence[Report]) -> None:
        """What holds of each commit by itself."""
        partitions = sorted(one.partition for one in reports)
        if partitions != sorted(record.starts):
            raise Violation(
                f"KS5: {record.instant} has reports of {partitions}, not {record.starts}"
            )
        for report in reports:
            if report.outcome is not Outcome.PREPARED or report.instant != record.instant:
                raise Violation(f"KS5: {record.instant} is committed with {report}")
            if report.records + report.gaps != report.end - report.start:
                raise Violation(f"KS8: {report} does not add up")
        before = self.last_commit()
        if any(record.offsets.get(one, -1) < at for one, at in before.offsets.items()):
            raise Violation(f"KS2: offsets go back from {before.offsets} to {record.offsets}")
        if record.epoch < before.epoch:
            raise Violation(f"KS3: epoch goes back from {before.epoch} to {record.epoch}")

    def judge(self) -> None:
        """KS1 and KS10: rows and offsets, one to one, by what readers see."""
        named = {file for commit in self.commits for file in commit.files}
        instants = {one.instant for one in self.commits}
        rows: dict[int, list[int]] = {one: [] for one in self.topic}
        for number, (instant, partition, offsets) in self.files.items():
            if instant in instants:
                rows[partition] += offsets
                if number not in named:
                    raise Violation(f"KS10: file {number} of {instant} is in no report")
        for partition, topic in self.topic.items():
            wanted = self._delivered(partition, topic)
            if sorted(rows[partition]) != wanted:
                raise Violation(f"KS1: partition {partition}: {_differ(rows[partition], wanted)}")

    def _delivered(self, partition: int, topic: Partition) -> list[int]:
        """The records below the standing offset, without those the topic lost before."""
        reached, wanted = 0, list[int]()
        for commit in self.commits:
            if partition in commit.starts:
                wanted += topic.between(
                    max(reached, commit.starts[partition]), commit.ends[partition]
                )
                reached = max(reached, commit.ends[partition])
        return wanted


def _differ(rows: list[int], wanted: list[int]) -> str:
    twice = sorted({one for one in rows if rows.count(one) > 1})
    return (
        f"twice {twice}, missing {sorted(set(wanted) - set(rows))}, "
        f"too many {sorted(set(rows) - set(wanted))}"
    )
