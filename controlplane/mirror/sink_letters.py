"""The dead letters of one commit of a sink: read from their files, because a person asked for
exactly that, and no more of them than he can look at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from controlplane.errors import InvalidRequest, NotAllowedNow, StorageUnavailable
from controlplane.mirror.conflict_facts import text
from controlplane.mirror.models import InstantRecord
from controlplane.mirror.storage import storage_of
from controlplane.tables.locations import checked_location
from controlplane.tables.masks import MASK
from controlplane.tables.messages import mask_foreign
from controlplane.tables.models import Table
from controlplane.tables.row_access import RowAccess, do_record_rows_read
from workers.clock import InstantTime
from workers.errors import LakehouseError, StorageFailed
from workers.sink.replays import DeadLetterId, Replay, find_sent_letters, read_replays
from workers.storage.opener import open_storage
from workers.storage.source_places import LETTERS_SUFFIX

LETTERS_SHOWN = 200
FILES_READ = 20
COMMITS_READ = 200
FILE_BYTES_MAX = 32 << 20
VALUE_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterRow:
    partition: int | None
    offset: int | None
    at: datetime | None
    """When it was produced."""
    cause: str
    key: str
    value: str
    """As text; what is no text is shown with replacement characters."""
    is_cut: bool
    place: str
    """`partition:offset`, by which a replay names it."""
    sent_at: datetime | None
    """When it was sent to its topic again; None where it was not."""
    sent_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterPage:
    instant: InstantTime
    directory: str
    records: int
    """That the commit left out."""
    rows: list[LetterRow]
    """The first of them."""
    passed_over: list[str]
    """Files that are gone, too large to be read here, or further than is looked."""


def sink_letters(
    table: Table, access: RowAccess, sink_id: str, instant: InstantTime, *, directory: str = ""
) -> LetterPage | None:
    """`directory` where the sink was told one. None when no such commit left anything out. It is in
    the audit that somebody read them.

    A letter is no row yet, so nobody knows which part of it is of a masked column: with a mask all
    that it holds is masked, and why it did not fit.

    Raises PermissionDenied for whoever may not read rows, InvalidRequest for a directory outside
    the roots, NotAllowedNow for files that cannot be read, StorageUnavailable.
    """
    access.check()
    commit_facts = _commit_facts(table, sink_id, instant)
    if not commit_facts or not commit_facts["bad"]:
        return None
    where = checked_location(directory or f"{table.location}{LETTERS_SUFFIX}")
    wanted, passed_over = _readable(where, commit_facts["letters"])
    rows = _rows(where, wanted, _sent(table, sink_id))
    do_record_rows_read(access, door="dead letters", rows=len(rows), instant=instant)
    return LetterPage(
        instant=instant,
        directory=where,
        records=int(commit_facts["bad"]),
        rows=rows if access.sees_all else [_masked(row) for row in rows],
        passed_over=passed_over,
    )


def letter_files(table: Table, sink_id: str, instant: InstantTime = "") -> tuple[list[str], bool]:
    """Names of one commit's files, or of the newest COMMITS_READ that left records out, oldest
    first; and whether there are more commits than that.

    Raises InvalidRequest for a commit that left nothing of this sink out.
    """
    commits = InstantRecord.objects.filter(table=table, sink=sink_id, metadata__sink__bad__gt=0)
    commits = commits.exclude(sink="").order_by("-completed_at")
    if instant:
        commits = commits.filter(requested_at=instant)
    names_by_commit = list(
        commits.values_list("metadata__sink__letters", flat=True)[: COMMITS_READ + 1]
    )
    if instant and not names_by_commit:
        raise InvalidRequest("this commit has no dead letters of this sink", instant=instant[:17])
    names = [name for one in reversed(names_by_commit[:COMMITS_READ]) for name in one]
    return names, len(names_by_commit) > COMMITS_READ


def _commit_facts(table: Table, sink_id: str, instant: InstantTime) -> dict[str, Any] | None:
    commits = InstantRecord.objects.filter(table=table, requested_at=instant, sink=sink_id)
    return commits.exclude(sink="").values_list("metadata__sink", flat=True).first()


def _sent(table: Table, sink_id: str) -> dict[DeadLetterId, Replay]:
    try:
        return find_sent_letters(read_replays(storage_of(table), sink_id))
    except StorageFailed as error:
        raise StorageUnavailable("the replays of dead letters cannot be read") from error
    except LakehouseError as error:
        raise NotAllowedNow(str(error)) from error


def _readable(directory: str, names: list[str]) -> tuple[list[str], list[str]]:
    storage = open_storage(directory)
    wanted: list[str] = []
    passed_over: list[str] = []
    for name in names:
        try:
            file = storage.info(name) if len(wanted) < FILES_READ else None
        except LakehouseError as error:
            raise InvalidRequest(error.message, **error.values) from error
        is_small = file is not None and file.size <= FILE_BYTES_MAX
        (wanted if is_small else passed_over).append(name)
    return wanted, passed_over


def _rows(directory: str, names: list[str], sent: dict[DeadLetterId, Replay]) -> list[LetterRow]:
    from workers.sink.dead_letters import read_dead_letters  # Late: few pages read Parquet.

    try:
        letters = read_dead_letters(directory, names)
    except StorageFailed as error:
        raise StorageUnavailable("the dead letters cannot be read") from error
    except LakehouseError as error:
        raise NotAllowedNow(f"the dead letters cannot be read: {error.message}") from error
    return [_row(one, sent) for one in letters.slice(0, LETTERS_SHOWN).to_pylist()]


def _row(letter: dict[str, Any], sent: dict[DeadLetterId, Replay]) -> LetterRow:
    key, value = _text(letter["key"]), _text(letter["value"])
    where = DeadLetterId(
        letter["_kafka_topic"],
        letter["_kafka_partition"],
        letter["_kafka_offset"],
        letter["_kafka_topic_id"] or "",
    )
    again = sent.get(where)
    return LetterRow(
        partition=letter["_kafka_partition"],
        offset=letter["_kafka_offset"],
        at=letter["_kafka_timestamp"],
        cause=text(letter["_sluice_error"], most=VALUE_CHARS),
        key=key[:VALUE_CHARS],
        value=value[:VALUE_CHARS],
        is_cut=max(len(key), len(value)) > VALUE_CHARS,
        place=f"{where.partition}:{where.offset}",
        sent_at=datetime.fromtimestamp(again.at_ms / 1000, UTC) if again else None,
        sent_by=again.by if again else "",
    )


def _masked(row: LetterRow) -> LetterRow:
    return replace(row, cause=mask_foreign(row.cause), key=MASK, value=MASK, is_cut=False)


def _text(content: bytes | None) -> str:
    """One character more than is shown, so that what was cut is known."""
    shown = (content or b"")[: 4 * VALUE_CHARS + 4].decode("utf-8", errors="replace")
    return shown.replace("\x00", "\N{REPLACEMENT CHARACTER}")
