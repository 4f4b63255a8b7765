"""The epochs of a streaming query, each written once however often it is sent.

A query that dies after its commit and before its checkpoint sends the epoch again. So the commit
itself contains the epoch and the stream, under Apache Hudi's key. It is searched for before the
epoch is written and again under the table lock, archived commits included.

Numbers of epochs mean nothing beyond the checkpoint that counts them. A stream's name therefore
belongs to the query that wrote under it first. The first epochs of a query that starts counting
again would be mistaken for existing ones.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict, ConflictRule
from workers.concurrency.outcome import CommitOutcome, Conflicted
from workers.errors import InvalidInput, MalformedTable
from workers.json_text import read_json
from workers.table.newest_commit import NewestCommit
from workers.table.table import Table
from workers.timeline.timeline import Timeline
from workers.write.context import Operation
from workers.write.local import write_arrow
from workers.write.request import WriteRequest

EPOCHS_KEY: Final = "_hudi_streaming_sink_checkpoint"
"""Hudi's key and form: JSON of the stream's name and the number of the epoch, as text."""
QUERY_KEY: Final = "sluice.stream.query"
"""The query whose checkpoint counts the epochs; Hudi's commits do not contain it."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Epoch:
    """One batch of a stream."""

    stream: str
    number: int
    query: str
    """A new checkpoint has a new one; empty if the writer did not set it."""

    @property
    def extra(self) -> tuple[tuple[str, str], ...]:
        """The metadata of the commit for it."""
        numbers = json.dumps({self.stream: str(self.number)})
        return ((EPOCHS_KEY, numbers), (QUERY_KEY, self.query))

    def is_written(self, newest: Epoch | None) -> bool:
        """Check whether `newest`, the stream's newest epoch that the table holds, is this one.

        Raises InvalidInput where this one does not come after it.
        """
        if newest is None:
            return False
        if newest.query and self.query and newest.query != self.query:
            raise InvalidInput(
                "the name belongs to another streaming query of this table, or to this one before"
                " its checkpoint was deleted; give the stream a name of its own",
                stream=self.stream,
                epoch=self.number,
                query=self.query,
                written_by=newest.query,
                newest=newest.number,
            )
        if newest.number > self.number:
            raise InvalidInput(
                "the table holds later epochs of this stream, so its checkpoint was put back to an"
                " older state; put the newest one there, or give the stream another name and have"
                " all its rows written again",
                stream=self.stream,
                epoch=self.number,
                newest=newest.number,
            )
        return newest.number == self.number


def write_epoch(
    table: Table, rows: pa.Table, epoch: Epoch, operation: Operation, options: Mapping[str, str]
) -> CommitOutcome | None:
    """Write and commit the rows; None where the table holds this epoch already.

    Raises InvalidInput for an epoch that does not come after the stream's newest one, and as
    `write_arrow`.
    """
    newest = NewestCommit(table, lambda extra, at: parse_epoch(extra, epoch.stream, at))
    if epoch.is_written(newest.of(table.timeline())):
        _note_again(epoch)
        return None
    condition = _Condition(newest, epoch)
    outcome = write_arrow(
        table, rows, WriteRequest(operation, extra=epoch.extra), options, condition
    )
    if isinstance(outcome, Conflicted) and condition.refused is not None:
        raise condition.refused
    if isinstance(outcome, Conflicted) and condition.is_written:
        _note_again(epoch)
        return None
    return outcome


def parse_epoch(extra: Mapping[str, str], stream: str, instant: InstantTime) -> Epoch | None:
    """Parse the epoch of this stream from a commit; None if the commit has none. Raises
    MalformedTable.
    """
    if EPOCHS_KEY not in extra:
        return None
    try:
        numbers = dict(read_json(extra[EPOCHS_KEY]))
        if stream not in numbers:
            return None
        return Epoch(stream, int(numbers[stream]), extra.get(QUERY_KEY, ""))
    except (ValueError, TypeError) as error:
        raise MalformedTable(
            "a commit does not contain the epoch of its stream", instant=instant, key=EPOCHS_KEY
        ) from error


def _note_again(epoch: Epoch) -> None:
    _log.info("epoch is in the table already: stream=%s epoch=%s", epoch.stream, epoch.number)


class _Condition:
    """The condition of a commit under the table lock: the epoch is not committed, by any process
    that sent it.
    """

    def __init__(self, newest: NewestCommit[Epoch], epoch: Epoch) -> None:
        self._newest = newest
        self._epoch = epoch
        self.is_written = False
        self.refused: InvalidInput | None = None

    def __call__(self, timeline: Timeline) -> Conflict | Mapping[str, str]:
        try:
            self.is_written = self._epoch.is_written(self._newest.of(timeline))
        except InvalidInput as error:
            self.refused = error
        if self.refused is None and not self.is_written:
            return {}
        reason = "the epoch was written meanwhile" if self.is_written else str(self.refused)
        return Conflict("write", reason, None, rule=ConflictRule.WRITE_EPOCH)
