"""What moved from the active timeline into its history, read once and kept.

The active timeline is listed first and the history after it: an archiver publishes there before it
deletes here, so nothing can be missed between the two. Of a long history all names are taken at
once, in columns; what their files held comes later, newest first and so many per pass.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from controlplane.mirror.facts import (
    CommitNote,
    InstantFacts,
    Key,
    Listing,
    completed_facts,
    key_of,
)
from controlplane.mirror.models import InstantRecord, SyncMark
from controlplane.mirror.row_sums import HISTORY
from controlplane.tables.models import Table
from workers.table import table as engine
from workers.timeline.archive import ArchivedInstant
from workers.timeline.archive_names import NAMES

_Named = tuple[str, str, str | None]
"""A row of `NAMES`."""
NAMES_ALONE = 10_000
"""More new names than these are taken by a pass of their own: they are there at once."""
CONTENTS_PER_PASS_MAX = 2000
"""So that no pass outlives its turn."""


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    moved: frozenset[Key] = frozenset()
    """Rows that stay and are archived from now on."""
    names: pa.Table = field(default_factory=NAMES.empty_table)
    """Of new rows, each once; `contents` tells more of some of them."""
    contents: tuple[InstantFacts, ...] = ()
    """Of rows that have no content yet, or are new."""
    gone: frozenset[Key] = frozenset()
    """Archived rows that the history does not have any more."""
    is_complete: bool = True
    """False when contents are left for the next pass."""

    ends_reading: bool = False
    """No content is left to be read that an earlier pass had left."""

    def span(self) -> tuple[str, str] | None:
        """The first and the last requested time of all this; None when nothing changes."""
        keys = [*self.moved, *self.gone, *(key_of(one.instant) for one in self.contents)]
        times = [requested_at for requested_at, _ in keys]
        if self.names.num_rows:
            times += _ends(self.names)
        return (min(times), max(times)) if times else None

    @property
    def is_empty(self) -> bool:
        return not (self.moved or self.contents or self.gone or self.names.num_rows)


def read_archive(
    table: Table,
    opened: engine.Table,
    listing: Listing,
    mark: SyncMark,
    completed: Collection[Key],
    note: CommitNote | None = None,
) -> ArchiveFacts:
    """`completed`: of which instants there are rows that are not archived. `note` is called with
    the metadata of each commit that is read.

    Nothing is opened while the history is the one that was read last, no row misses its instant and
    none its content. Raises MalformedTable.
    """
    present = {key_of(one) for one in listing.timeline.instants}
    vanished = set(completed) - present
    if not listing.history and not mark.history_version:
        return ArchiveFacts()
    moved: frozenset[Key] = frozenset()
    gone: frozenset[Key] = frozenset()
    names = NAMES.empty_table()
    if str(listing.history or "") != mark.history_version or vanished:
        archived = without(_distinct(opened.load_archived_names()), present)
        kept = _kept(table, mark)
        names = without(archived, [*kept, *completed])
        moved = frozenset(vanished & _those_in(archived, vanished))
        if archived.num_rows - names.num_rows < len(kept) + len(moved):
            gone = frozenset(kept - _those_in(archived, kept))
    is_long = names.num_rows > NAMES_ALONE
    wanted = [] if is_long else _newest(names) or _unread(table, mark)
    contents = _read(opened, wanted, note)
    left = names.num_rows + mark.names_only - len(contents)
    ends_reading = bool(mark.names_only) and left <= 0
    return ArchiveFacts(moved, names, contents, gone, left <= 0, ends_reading)


def without(names: pa.Table, keys: Collection[Key]) -> pa.Table:
    """Those that are none of `keys`."""
    if not keys or not names.num_rows:
        return names
    return names.filter(pc.invert(pc.is_in(_texts_of(names), _texts(keys))))


def _text_of(key: Key) -> str:
    return ".".join(key)


def _texts_of(names: pa.Table) -> Any:
    """A text for each that no other instant of the table has."""
    columns = [names.column(name).combine_chunks() for name in ("requested_at", "action")]
    return pc.binary_join_element_wise(*columns, ".")  # type: ignore[call-overload]


def _ends(names: pa.Table) -> tuple[str, str]:
    times = names.column("requested_at")
    return pc.min(times).as_py(), pc.max(times).as_py()


def _distinct(names: pa.Table) -> pa.Table:
    if pc.count_distinct(_texts_of(names)).as_py() == names.num_rows:
        return names
    by = ["requested_at", "action"]
    once = names.group_by(by).aggregate([("completed_at", "max")])
    return once.rename_columns({"completed_at_max": "completed_at"}).select(NAMES.names)


def _those_in(names: pa.Table, keys: Collection[Key]) -> set[Key]:
    if not keys:
        return set()
    is_in = pc.is_in(_texts(keys), _texts_of(names)).to_pylist()
    return {key for key, is_there in zip(keys, is_in, strict=True) if is_there}


def _texts(keys: Collection[Key]) -> Any:
    return pa.array(map(_text_of, keys), pa.string())


def _kept(table: Table, mark: SyncMark) -> set[Key]:
    rows = mark.stored(InstantRecord.objects.filter(table=table, is_archived=True), HISTORY)
    return set(rows.values_list("requested_at", "action").iterator())


def _newest(names: pa.Table) -> list[_Named]:
    """Oldest first."""
    if not names.num_rows:
        return []
    ordered = names.sort_by([("requested_at", "descending"), ("action", "descending")])
    newest = ordered.slice(0, CONTENTS_PER_PASS_MAX)
    return sorted(zip(*newest.to_pydict().values(), strict=True))


def _unread(table: Table, mark: SyncMark) -> list[_Named]:
    if not mark.names_only:
        return []
    rows = InstantRecord.objects.filter(table=table, has_content=False)
    newest = rows.order_by("-requested_at", "-action").values_list(*NAMES.names)
    return sorted(newest[:CONTENTS_PER_PASS_MAX])


def _read(
    opened: engine.Table, wanted: list[_Named], note: CommitNote | None
) -> tuple[InstantFacts, ...]:
    if not wanted:
        return ()
    keys = {(requested_at, action) for requested_at, action, _ in wanted}
    ended = max(completed_at or requested_at for requested_at, _, completed_at in wanted)
    archived = opened.list_archived_instants(
        requested_from=wanted[0][0],
        completed_until=ended,
        with_content=True,
        is_partial=True,
    )
    return tuple(_facts(opened, one, note) for one in archived if key_of(one.instant) in keys)


def _facts(
    opened: engine.Table, archived: ArchivedInstant, note: CommitNote | None
) -> InstantFacts:
    if archived.metadata is None:
        return InstantFacts(instant=archived.instant)
    return completed_facts(opened, archived.instant, archived.metadata, note)
