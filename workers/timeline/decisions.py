"""The decision object: one per instant, put-if-absent, `commit` or `rollback`, never both.

The completed file's name holds the completion time, so creating it excludes no other writer; this
object does (design 2). `<instant>.undo/<rollback>` next to it decides, put-if-absent again, whether
that rollback undoes a committed instant: `undo` by its owner, or `void` by the next holder of the
table lock.

Objects of archived instants are removed. So that no stalled process decides such an instant again,
`archived_before` records the border before which everything is decided; it only ever grows, and it
fences as the objects did: `is_decided` checks both. `timeline/decision_lookup.py` finds the outcome
of such an instant.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from workers.clock import InstantTime, parse_instant
from workers.errors import MalformedTable, NotFound
from workers.json_text import read_json
from workers.storage.base import FileInfo, Storage, put_if_absent_known
from workers.table_layout import (
    ARCHIVED_BEFORE,
    DECIDED_METADATA,
    DECISIONS,
    SETTLED_METADATA,
    TIMELINE,
)

_ONE_BY_ONE_MAX = 4
_UNDO = "undo"
_UNDO_SUFFIX = ".undo"


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """The decision to commit; any process can publish the completed file from it."""

    completed_at: InstantTime
    nonce: str
    action: str
    metadata_sha256: str
    writer: str | None = None
    following: Mapping[InstantTime, CommitDecision] = field(default_factory=dict)
    """Instants whose commit is decided with this one, and published with it."""


@dataclass(frozen=True, slots=True)
class RollbackDecision:
    """The decision never to commit; the instant's files are deleted."""

    by: str
    """The rollback instant, or `takeover` when the next lock holder fenced a writer that let its
    lease run out.
    """
    nonce: str
    reason: str
    writer: str | None = None
    conflict: dict[str, Any] | None = None


Decision = CommitDecision | RollbackDecision


def read(storage: Storage, instant: InstantTime) -> Decision | None:
    """Return the decision for the instant, or None if it is undecided. Raises MalformedTable when
    the object is not one of ours.
    """
    try:
        content = storage.read(get_decision_path(instant))
    except NotFound:
        return None
    return _decode(content, instant)


def read_all(storage: Storage, instants: Sequence[InstantTime]) -> dict[InstantTime, Decision]:
    """Return the decisions of `instants` that are decided, in their order; found with one listing
    if there are many of them, because hardly any is.

    Raises MalformedTable as `read`.
    """
    if len(instants) > _ONE_BY_ONE_MAX:
        decided = set(storage.list_names(DECISIONS.path))
        instants = [instant for instant in instants if instant in decided]
    decisions = ((instant, read(storage, instant)) for instant in instants)
    return {instant: decision for instant, decision in decisions if decision is not None}


def decide(storage: Storage, instant: InstantTime, decision: Decision) -> bool:
    """Put the decision, and return True if it holds now; False when the opposite, or another
    process's, came first.
    """
    if not put_if_absent_known(storage, get_decision_path(instant), _encode(decision)):
        return False
    if isinstance(decision, CommitDecision) and instant < load_archive_border(storage):
        storage.delete(
            get_decision_path(instant)
        )  # Settled long ago, and its object removed since.
        return not _is_archived(storage, instant)
    return True


def is_decided(storage: Storage, instant: InstantTime) -> bool:
    """Return True if it was decided, either way, now or so long ago that its object was removed:
    nothing may be added to it.

    The object is read first: it is removed only once `archived_before` has passed its instant.
    """
    return storage.info(get_decision_path(instant)) is not None or _is_archived(storage, instant)


def _is_archived(storage: Storage, instant: InstantTime) -> bool:
    """Return True if the instant is older than the border of the archive.

    The border is an active instant when it is written, and later instants only join it. Raises
    MalformedTable if it is later than all of them: a writer would be taken for an archived one.
    """
    border = load_archive_border(storage)
    if instant >= border:
        return False
    names = [name for name in storage.list_names(TIMELINE.path) if name[:1].isdigit()]
    if names and max(names)[: len(border)] < border:
        raise _build_border_error(border)
    return True


def has_rollback_decision(storage: Storage, instant: InstantTime) -> bool:
    """Return True if an object that still holds decides a rollback."""
    decision = read(storage, instant)
    return isinstance(decision, RollbackDecision) or is_undone(storage, instant)


def load_archive_border(storage: Storage) -> InstantTime:
    """Load the border before which every instant is archived or rolled back; empty if there is
    none. Raises MalformedTable if the file is damaged: an earlier border would let a stalled
    process write again.
    """
    try:
        content = storage.read(ARCHIVED_BEFORE.path)
    except NotFound:
        return ""
    return _boundary(content)


def _boundary(content: bytes) -> InstantTime:
    boundary = content.decode("ascii", errors="replace")
    try:
        parse_instant(boundary)
    except MalformedTable as error:
        raise _build_border_error(boundary) from error
    return boundary


def _build_border_error(border: str) -> MalformedTable:
    return MalformedTable(
        "the file with the archive's border is damaged: write the first active instant into it, "
        "all digits and nothing else",
        path=ARCHIVED_BEFORE.path,
        content=border[:40],
    )


def raise_archived_before(storage: Storage, start: InstantTime) -> None:
    """Raise the border, under the table lock, once everything before `start` is durable in the
    history.
    """
    try:
        boundary = storage.read_tagged(ARCHIVED_BEFORE.path)
    except NotFound:
        storage.put_if_absent(ARCHIVED_BEFORE.path, start.encode())
        return
    if _boundary(boundary.content) < start:
        storage.replace_if_match(ARCHIVED_BEFORE.path, start.encode(), boundary.tag)


def remove_archived(
    storage: Storage, pending: Collection[InstantTime], last: InstantTime | None
) -> None:
    """Delete the decisions of archived instants, except `pending` ones.

    `last` is the latest in the history. The history cannot prove that an instant between it and the
    active timeline was rolled back: its objects stay until the next time.
    """
    start = load_archive_border(storage)
    for instant in list_decided_instants(storage):
        if instant < start and instant <= (last or "") and instant not in pending:
            storage.delete(get_decision_path(instant))
    for instant in undone_instants(storage):
        if instant < start and instant <= (last or "") and instant not in pending:
            storage.delete_tree(_undo_directory(instant))


def get_decision_path(instant: InstantTime) -> str:
    """Return the path relative to the table; it is created at most once in an instant's life."""
    return DECISIONS.file(instant)


def metadata_path(instant: InstantTime, nonce: str) -> str:
    """Return the path of the completed file's content before the decision that refers to it."""
    return f"{DECIDED_METADATA.path}/{instant}.{nonce}"


def is_undone(storage: Storage, instant: InstantTime) -> bool:
    """Return True if a rollback undid a committed instant. Raises MalformedTable."""
    return find_rollback_instant(storage, instant) is not None


def find_rollback_instant(storage: Storage, instant: InstantTime) -> InstantTime | None:
    """Return the rollback instant that undid a committed instant, or None."""
    undone = _find_undo(storage, instant)
    return undone[0] if undone else None


def find_rollback_reason(storage: Storage, instant: InstantTime) -> str | None:
    """Return the reason for its rollback, or None if no object decides one. Raises
    MalformedTable.
    """
    decision = read(storage, instant)
    if isinstance(decision, RollbackDecision):
        return decision.reason
    undone = _find_undo(storage, instant)
    return undone[1] if undone else None


def _find_undo(storage: Storage, instant: InstantTime) -> tuple[InstantTime, str] | None:
    """Return (rollback instant, its reason), or None."""
    for file in storage.list_files(_undo_directory(instant)):
        try:
            verdict = read_json(storage.read(file.path))
            outcome, reason = verdict["outcome"], str(verdict.get("reason", ""))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MalformedTable("undo object is damaged", path=file.path) from error
        if outcome == _UNDO:
            return file.name, reason
    return None


def undo(storage: Storage, instant: InstantTime, *, by: InstantTime, reason: str) -> bool:
    """Decide that `instant`, which had been committed, is undone in the name of `by`.

    Under the table lock, whose owner text names both. Returns False when the lease expired and the
    next holder fenced this undo first.
    """
    verdict = json.dumps({"outcome": _UNDO, "reason": reason}).encode()
    path = f"{_undo_directory(instant)}/{by}"
    if not put_if_absent_known(storage, path, verdict):
        return False
    if instant < load_archive_border(storage):
        storage.delete(path)
        return not _is_archived(storage, instant)
    return True


def fence_undo(storage: Storage, instant: InstantTime, *, by: InstantTime) -> None:
    """Fence the undo of `instant` in the name of `by`: the former holder of the lock can no longer
    decide it.
    """
    verdict = json.dumps({"outcome": "void"}).encode()
    put_if_absent_known(storage, f"{_undo_directory(instant)}/{by}", verdict)


def undone_instants(storage: Storage) -> list[InstantTime]:
    """List the instants for which an undo was decided or fenced."""
    names = [path.rpartition("/")[2] for path in storage.list_directories(DECISIONS.path)]
    return [name.removesuffix(_UNDO_SUFFIX) for name in names if name.endswith(_UNDO_SUFFIX)]


def _undo_directory(instant: InstantTime) -> str:
    return f"{get_decision_path(instant)}{_UNDO_SUFFIX}"


def list_decided_instants(storage: Storage) -> list[InstantTime]:
    """List the instants that have a decision of either kind, ascending."""
    return sorted(name for name in storage.list_names(DECISIONS.path) if name.isdigit())


def delete_metadata(storage: Storage, path: str) -> None:
    """Delete staged content that is no longer needed; if it is restored, the next writer deletes
    it.
    """
    storage.delete(path, SETTLED_METADATA.durability)


def load_staged_metadata(storage: Storage) -> Sequence[FileInfo]:
    """Load the staged contents of decisions, and those of dead writers."""
    return storage.list_files(DECIDED_METADATA.path)


def _encode(decision: Decision) -> bytes:
    outcome = "commit" if isinstance(decision, CommitDecision) else "rollback"
    body = asdict(decision)
    if not body.get("following"):
        body.pop("following", None)
    return json.dumps({"outcome": outcome, **body}, sort_keys=True).encode()


def _decode(content: bytes, instant: InstantTime) -> Decision:
    try:
        body = read_json(content)
        outcome = body.pop("outcome")
        return _commit(body) if outcome == "commit" else RollbackDecision(**body)
    except (ValueError, KeyError, TypeError, AttributeError, MalformedTable) as error:
        raise MalformedTable("decision object is damaged", instant=instant) from error


def _commit(body: dict[str, Any]) -> CommitDecision:
    following = {at: _commit(told) for at, told in body.pop("following", {}).items()}
    decision = CommitDecision(**body, following=following)
    parse_instant(decision.completed_at)  # A file is going to have it in its name.
    return decision
