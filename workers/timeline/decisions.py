"""The decision object: one per instant, put-if-absent, `commit` or `rollback`, never both.

The completed file's name holds the completion time, so creating it excludes nobody; this object
does (design 2). `<instant>.undo` beside it records that an instant which had been committed was
taken back by an admin.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from workers.clock import InstantTime
from workers.errors import MalformedTable, NotFound
from workers.storage.base import FileInfo, Storage
from workers.storage.retry import put_if_absent_known

DIRECTORY = ".hoodie/.sluice/decision"
_METADATA_DIRECTORY = ".hoodie/.sluice/metadata"


@dataclass(frozen=True, slots=True)
class CommitDecision:
    completed_at: InstantTime
    nonce: str
    action: str
    metadata_sha256: str
    writer: str | None = None


@dataclass(frozen=True, slots=True)
class RollbackDecision:
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
    """Raises MalformedTable when the object is not one of ours."""
    try:
        content = storage.read(path_of(instant))
    except NotFound:
        return None
    return _decode(content, instant)


def decide(storage: Storage, instant: InstantTime, decision: Decision) -> bool:
    """True when `decision` stands now; False when the opposite, or somebody else's, came first."""
    return put_if_absent_known(storage, path_of(instant), _encode(decision))


def path_of(instant: InstantTime) -> str:
    return f"{DIRECTORY}/{instant}"


def metadata_path(instant: InstantTime, nonce: str) -> str:
    """Where the completed file's content waits before the decision that points to it."""
    return f"{_METADATA_DIRECTORY}/{instant}.{nonce}"


def is_undone(storage: Storage, instant: InstantTime) -> bool:
    return storage.info(f"{path_of(instant)}.undo") is not None


def undo(storage: Storage, instant: InstantTime, *, by: InstantTime, reason: str) -> bool:
    content = json.dumps({"by": by, "reason": reason}).encode()
    return put_if_absent_known(storage, f"{path_of(instant)}.undo", content)


def undone_by(storage: Storage, instant: InstantTime) -> InstantTime | None:
    try:
        return str(json.loads(storage.read(f"{path_of(instant)}.undo"))["by"])
    except NotFound:
        return None


def decided_instants(storage: Storage) -> list[InstantTime]:
    return [file.name for file in storage.list_files(DIRECTORY) if file.name.isdigit()]


def waiting_metadata(storage: Storage) -> list[FileInfo]:
    return storage.list_files(_METADATA_DIRECTORY)


def _encode(decision: Decision) -> bytes:
    outcome = "commit" if isinstance(decision, CommitDecision) else "rollback"
    return json.dumps({"outcome": outcome, **asdict(decision)}, sort_keys=True).encode()


def _decode(content: bytes, instant: InstantTime) -> Decision:
    try:
        body = json.loads(content)
        outcome = body.pop("outcome")
        return CommitDecision(**body) if outcome == "commit" else RollbackDecision(**body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedTable("decision object is damaged", instant=instant) from error
