"""Why a cell of a joined row is null, in words: read from the key's own file slices, now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlplane.errors import InvalidRequest, StorageUnavailable
from controlplane.mirror.group_rows import GroupCommits, group_commits
from controlplane.mirror.models import InstantRecord
from controlplane.mirror.storage import engine_table
from controlplane.tables.masks import MASK
from controlplane.tables.models import Table
from controlplane.tables.row_access import RECORD_KEY, RowAccess, do_record_rows_read
from workers.clock import InstantTime
from workers.errors import InvalidInput, StorageFailed

if TYPE_CHECKING:
    from workers.read.cell_story import CellStory, GroupStory, Version


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    commit: InstantTime
    stream: str
    """Who wrote it: the stream, else the writer; empty when the timeline does not say any more."""
    is_in_base: bool
    """Compacted since: the commit is the newest of the row's, and the stream's own may be older."""
    age: list[str]
    is_delete: bool
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer:
    stream: str
    verdict: str
    ordering: list[str]
    age: list[str]
    since: InstantTime | None
    is_since_sure: bool
    """Otherwise the newest commit that can have brought it: files were compacted since."""
    by: str
    completes: str
    """What would bring a value; empty when there is one."""
    versions: list[VersionRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellAnswer:
    key: str
    partition: str
    file_id: str
    column: str
    stream: str
    """Owner of the column; empty where the whole row was asked for."""
    verdict: str
    """set, null, not_brought, never, deleted, row_deleted, erased or unknown."""
    words: str
    since: InstantTime | None
    is_since_sure: bool
    by: str
    completes: str
    groups: list[GroupAnswer]


def explain(
    table: Table,
    access: RowAccess,
    *,
    key: str,
    column: str = "",
    partition: str | None = None,
) -> list[CellAnswer]:
    """One answer per partition that holds the key; one that says so when none does. It is in the
    audit that somebody asked.

    Raises PermissionDenied, also for a column that is masked and where keys are; InvalidRequest for
    a column that is in no group, StorageUnavailable.
    """
    access.check_column(RECORD_KEY)
    access.check_column(column)
    from workers.read.cell_story import explain_cell  # Late: other pages never need the reader.

    try:
        stories = explain_cell(engine_table(table), key, column=column, partition=partition)
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
    except StorageFailed as error:
        raise StorageUnavailable("table storage does not answer: retry later") from error
    do_record_rows_read(access, door="cell story", rows=len(stories), column=column)
    if not stories:
        return [_unknown(key, column)]
    commits = {one for story in stories for one in _commits(story)}
    known = _Known(table, access, _writers(table, commits))
    return [_answer(story, known) for story in stories]


@dataclass(slots=True)
class _Known:
    table: Table
    access: RowAccess
    who: dict[InstantTime, str]
    _commits: dict[str, GroupCommits] | None = None

    def compacted(self, group: str, version: Version) -> tuple[InstantTime | None, str]:
        """The newest commit up to this one that brought the group events of this age."""
        if self._commits is None:
            self._commits = group_commits(self.table)
        commits = self._commits.get(group)
        for row in commits.rows if commits else ():
            if row.instant <= version.commit and row.covers(version.age):
                return row.instant, row.writer
        return None, ""

    def age(self, group: GroupStory, age: Iterable[str]) -> list[str]:
        """As much of it as may be seen."""
        hides = self.access.hides(*group.ordering)
        return [MASK if hides else text for text in age]


def _commits(story: CellStory) -> Iterable[InstantTime]:
    return (version.commit for group in story.groups for version in group.versions)


def _writers(table: Table, commits: Iterable[InstantTime]) -> dict[InstantTime, str]:
    records = InstantRecord.objects.filter(
        table=table, requested_at__in=sorted(set(commits)), state="completed"
    ).values_list("requested_at", "stream", "writer_name")
    return {requested_at: stream or writer for requested_at, stream, writer in records}


def _answer(story: CellStory, known: _Known) -> CellAnswer:
    groups = [_group(one, known) for one in story.groups]
    own = next((one for one in groups if one.stream == story.owner), None)
    return CellAnswer(
        key=story.key,
        partition=story.partition,
        file_id=story.file_id,
        column=story.column,
        stream=story.owner,
        verdict=story.verdict,
        words=_words(story, own, known),
        since=own.since if own else None,
        is_since_sure=own is not None and own.is_since_sure,
        by=own.by if own else "",
        completes=own.completes
        if own
        else "Any stream that writes this key begins it anew."
        if story.verdict == "erased"
        else "",
        groups=groups,
    )


def _group(story: GroupStory, known: _Known) -> GroupAnswer:
    counting, who = story.current_version, known.who
    since, by = None, ""
    if counting is not None and counting.is_in_base:
        since, by = known.compacted(story.group, counting)
    elif counting is not None:
        since, by = counting.commit, who.get(counting.commit, "")
    return GroupAnswer(
        stream=story.group,
        verdict=story.verdict,
        ordering=list(story.ordering),
        age=known.age(story, story.age),
        since=since,
        is_since_sure=counting is not None and not counting.is_in_base,
        by=by,
        completes=_completes(story, known),
        versions=[
            VersionRow(
                commit=one.commit,
                stream=who.get(one.commit, ""),
                is_in_base=one.is_in_base,
                age=known.age(story, one.age),
                is_delete=one.is_delete,
                counts=one.counts,
            )
            for one in story.versions
        ],
    )


def _completes(story: GroupStory, known: _Known) -> str:
    if story.verdict == "set":
        return ""
    if story.takes_any_age:
        named = f" and any {', '.join(story.ordering)}" if story.ordering else ""
        return f"A write of {story.group} with this key{named}."
    age = _aged(story, known)
    bound = "above" if story.verdict == "row_deleted" else "at or above"
    return f"A write of {story.group} with this key and {age.replace(' ', f' {bound} ', 1)}."


def _aged(story: GroupStory, known: _Known) -> str:
    pairs = zip(story.ordering, known.age(story, story.age), strict=False)
    return ", ".join(f"{name} {value or 'null'}" for name, value in pairs) or "a later commit"


def _words(story: CellStory, own: GroupAnswer | None, known: _Known) -> str:
    if story.verdict == "erased":
        return "The key was deleted, and nothing was written under it since."
    if own is None:
        held = [one.group for one in story.groups if one.verdict == "set"]
        return "It has " + (", ".join(held) if held else "nothing of any stream") + "."
    group = next(one for one in story.groups if one.group == own.stream)
    said = {
        "set": f"{story.column} is not null: {own.stream} wrote it at {_aged(group, known)}.",
        "null": f"{own.stream} wrote this key at {_aged(group, known)}, and said null for "
        f"{story.column}.",
        "not_brought": f"{own.stream} wrote this key, but never a value for {story.column}.",
        "never": f"{own.stream} has never written this key.",
        "deleted": f"{own.stream} deleted its part of this key at {_aged(group, known)}.",
        "row_deleted": f"The whole row was deleted up to {' '.join(own.age)}, and {own.stream} "
        "wrote nothing newer since.",
    }
    return said[story.verdict]


def _unknown(key: str, column: str) -> CellAnswer:
    return CellAnswer(
        key=key,
        partition="",
        file_id="",
        column=column,
        stream="",
        verdict="unknown",
        words="No file of the table holds this key: no stream has written it, or its deletion is "
        "no longer remembered.",
        since=None,
        is_since_sure=False,
        by="",
        completes="A write of any stream with this key.",
        groups=[],
    )
