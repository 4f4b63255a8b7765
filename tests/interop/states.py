"""The states of a table's daily life, each brought about by the engine alone."""

from __future__ import annotations

from tests.interop.known_table import KnownTable, State


def upserted(known: KnownTable) -> None:
    known.upsert(range(12), "first")
    known.upsert(range(6, 18), "second")


def deleted(known: KnownTable) -> None:
    upserted(known)
    known.delete([0, 7, 13, 99])


def deleted_and_back(known: KnownTable) -> None:
    deleted(known)
    known.upsert([7, 13], "back")


def overwritten(known: KnownTable) -> None:
    upserted(known)
    known.insert_overwrite([1, 4, 20], "over")
    known.upsert([4, 21, 2], "after")


def compacted(known: KnownTable) -> None:
    deleted_and_back(known)
    known.serve("compaction")
    known.upsert([1, 30], "later")


def pending_compaction(known: KnownTable) -> None:
    deleted_and_back(known)
    known.serve("compaction", schedule_only="true")
    known.upsert([1, 30], "later")


def clustered(known: KnownTable) -> None:
    deleted_and_back(known)
    known.serve("clustering", **{"hoodie.clustering.plan.strategy.sort.columns": "value"})
    known.upsert([1, 30], "later")


def rolled_back(known: KnownTable) -> None:
    deleted(known)
    known.upsert([3, 40], "gone")
    known.roll_back_newest()
    known.upsert([5], "after")


def restored(known: KnownTable) -> None:
    upserted(known)
    known.serve("savepoint", instant=known.newest())
    saved, rows = known.newest(), dict(known.rows)
    known.upsert([3, 40], "gone")
    if known.cell.table_type == "MERGE_ON_READ":
        known.serve("compaction")
    known.delete([1])
    known.serve("restore", instant=saved)
    known.rows = rows


def cleaned(known: KnownTable) -> None:
    deleted_and_back(known)
    if known.cell.table_type == "MERGE_ON_READ":
        known.serve("compaction")
    known.upsert([8, 9], "more")
    known.serve("clean", **{"hoodie.clean.commits.retained": "1"})


def archived(known: KnownTable) -> None:
    upserted(known)
    for turn in range(4):
        known.upsert([turn, 50 + turn], f"turn {turn}")
    known.serve("archive", **{"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"})
    known.upsert([2], "after")


STATES: dict[str, State] = {
    "upserted": upserted,
    "deleted": deleted,
    "back": deleted_and_back,
    "overwritten": overwritten,
    "compacted": compacted,
    "planned": pending_compaction,
    "clustered": clustered,
    "rolledback": rolled_back,
    "restored": restored,
    "cleaned": cleaned,
    "archived": archived,
}
NEED_LOGS = frozenset({"compacted", "planned"})
