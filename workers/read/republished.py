"""The commit that a row belongs to, in tables where some commits publish rows of others again.

A commit that was overtaken is followed by one with `sluice.restates`, for engines that merge by the
time of request (`workers.concurrency.republish`). Its rows carry its time in `_hoodie_commit_time`,
so that those engines deliver them, and keep in `_hoodie_commit_seqno` the commit that wrote them
first. Here they belong to that commit: the one that follows changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime
from workers.files.meta_columns import COMMIT_SEQNO, COMMIT_TIME

INSTANT_CHARS = 17


@dataclass(frozen=True, slots=True)
class WindowCommits:
    """The commits of a window, by requested time."""

    instants: tuple[InstantTime, ...]
    """In the order in which they became visible, without those that only publish again."""
    republishing: Mapping[InstantTime, InstantTime]
    """Commits that publish rows again -> the commit that each follows."""

    @property
    def in_rows(self) -> tuple[InstantTime, ...]:
        """The values of `_hoodie_commit_time` that rows of the window may have."""
        return (*self.instants, *self.republishing)

    @property
    def origins(self) -> tuple[InstantTime, ...]:
        """The commits whose time begins the `_hoodie_commit_seqno` of rows that were published
        again. Rows of older versions of Sluice name the commit that published them again.
        """
        known = set(self.instants)
        before = (again for again, first in self.republishing.items() if first in known)
        return (*self.instants, *before)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `expression` looks at."""
        return (COMMIT_TIME, COMMIT_SEQNO) if self.republishing else (COMMIT_TIME,)

    @property
    def expression(self) -> Any:
        """The condition that a row was written by one of them."""
        by_time: Any = pc.field(COMMIT_TIME).isin(_texts(self.instants))
        if not self.republishing:
            return by_time
        again: Any = pc.field(COMMIT_TIME).isin(_texts(self.republishing))
        first: Any = pc.utf8_slice_codeunits(pc.field(COMMIT_SEQNO), 0, INSTANT_CHARS)
        return by_time | (again & first.isin(_texts(self.origins)))


def commit_of_row(row: pa.Table, republishing: Mapping[InstantTime, InstantTime]) -> InstantTime:
    """Return the commit that wrote the only row of `row`, or an empty text if it does not say."""
    commit = str(row.column(COMMIT_TIME)[0].as_py() or "")
    if commit not in republishing:
        return commit
    first = str(row.column(COMMIT_SEQNO)[0].as_py() or "")[:INSTANT_CHARS]
    return republishing[commit] if first in ("", commit) else first


def _texts(instants: Any) -> pa.Array[Any]:
    return pa.array(list(instants), pa.string())
