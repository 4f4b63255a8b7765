"""Keys of which other engines read another row than Sluice after a commit, even with its
republished rows.

They are counted under the lock, stored in the commit and reported by its outcome.
"""

from __future__ import annotations

import logging
from typing import Protocol

from workers.concurrency.republish import RowsToRepublish
from workers.errors import MalformedTable, NotFound, StorageFailed
from workers.timeline.extra_metadata import KeyCounts
from workers.timeline.timeline import Timeline

_log = logging.getLogger(__name__)


class DivergenceCounter(Protocol):
    """The file groups of one write as other engines merge them."""

    def count_keys(self, timeline: Timeline, again: RowsToRepublish | None, /) -> KeyCounts:
        """Return (partition, file id) -> keys of which other engines read another row, after all
        commits of `timeline`, this one and the republished rows are visible. Raises StorageFailed.
        """


def count_ahead(timeline: Timeline, counter: DivergenceCounter | None) -> None:
    """Count the keys before the lock is held, so that the counter has read what `timeline` shows
    when it counts again under the lock. Do nothing without a counter; log a failed read.
    """
    if counter is None:
        return
    try:
        counter.count_keys(timeline, None)
    except (MalformedTable, NotFound, StorageFailed) as error:
        _log.info("keys are counted under the lock instead: error=%s", error)


def format_warnings(counts: KeyCounts) -> tuple[str, ...]:
    """Return one sentence for the user about the counted keys; nothing if no key is counted."""
    keys = sum(counts.values())
    if not keys:
        return ()
    many = "1 key is" if keys == 1 else f"{keys} keys are"
    groups = sum(count > 0 for count in counts.values())
    where = "1 file group" if groups == 1 else f"{groups} file groups"
    who = "read differently by Apache Hudi and hudi-rs"
    return (f"{many} {who} in {where} of this commit, until the table is compacted",)
