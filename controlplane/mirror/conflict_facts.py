"""What a decision object says of a lost write, as values: bounded, and tolerant of older records
that say less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.tables.messages import mask_message
from workers.clock import InstantTime
from workers.timeline.decisions import RollbackDecision

TEXT_CHARS_MAX = 500
MESSAGE_CHARS_MAX = 2_000
GROUPS_KEPT = 2_000
KEYS_KEPT = 10
_DETAILS = ("case", "rule")
"""Taken over as they are when the record has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictFacts:
    loser: InstantTime
    loser_writer: str
    winner: InstantTime
    winner_writer: str
    kind: str
    message: str
    file_groups: list[list[str]]
    overlap: int
    schemas: Mapping[str, Any] | None
    detected: str
    """`early`, while the loser still wrote, or `commit`."""
    strategy: str
    """Of early detection, Hudi's class name; else empty."""
    wasted_files: int
    wasted_bytes: int
    lasted_ms: int | None
    details: Mapping[str, Any]
    decided_ms: int


def conflict_of_decision(
    loser: InstantTime, decision: RollbackDecision, decided_ms: int
) -> ConflictFacts:
    """What a decision that has a conflict says of it."""
    conflict = decision.conflict or {}
    groups = _groups(conflict.get("file_groups"))
    details = {key: _small(conflict[key]) for key in _DETAILS if conflict.get(key) is not None}
    return ConflictFacts(
        loser=loser,
        loser_writer=text(conflict.get("writer") or decision.writer),
        winner=text(conflict.get("rival"))[:17],
        winner_writer=text(conflict.get("rival_writer")),
        kind="schema" if conflict.get("kind") == "schema" else "write",
        # A reason may repeat the error of a writer, with values of rows of other tables.
        message=text(
            conflict.get("message") or mask_message(decision.reason), most=MESSAGE_CHARS_MAX
        ),
        file_groups=groups[:GROUPS_KEPT],
        overlap=len(groups),
        schemas=conflict.get("schemas") or None,
        detected="early" if conflict.get("detected") == "early" else "commit",
        strategy=text(conflict.get("strategy")),
        wasted_files=_count(conflict.get("wasted_files")) or 0,
        wasted_bytes=_count(conflict.get("wasted_bytes"), most=2**62) or 0,
        lasted_ms=_count(conflict.get("lasted_ms"), most=2**62),
        details={
            **details,
            **_keys(conflict),
            "lost": _lost(conflict.get("lost")),
            "rolled_back_by": text(decision.by),
        },
        decided_ms=decided_ms,
    )


def text(value: object, *, most: int = TEXT_CHARS_MAX) -> str:
    """Text of a table is untrusted: bounded here, escaped by whoever shows it. PostgreSQL stores no
    NUL.
    """
    return "" if value is None else str(value)[:most].replace("\x00", "")


def _lost(loser: object) -> dict[str, Any] | None:
    """What the loser said of itself; None in older records, which do not hold that."""
    if not isinstance(loser, Mapping):
        return None
    texts = {
        key: text(loser.get(key)) for key in ("operation", "mode", "host", "operation_id", "stream")
    }
    elsewhere = _groups(loser.get("elsewhere"))
    return {
        **texts,
        "pid": _count(loser.get("pid")),
        "attempt": _count(loser.get("attempt")) or 1,
        "attempts_max": _count(loser.get("attempts_max")) or 1,
        "elsewhere": elsewhere,
        "elsewhere_count": max(_count(loser.get("elsewhere_count")) or 0, len(elsewhere)),
    }


def _keys(conflict: Mapping[str, Any]) -> dict[str, Any]:
    """Record keys that both inserted, some of them and how many; nothing of other conflicts."""
    named = conflict.get("keys")
    if not isinstance(named, list) or not named:
        return {}
    kept = [text(one) for one in named[:KEYS_KEPT]]
    return {"keys": kept, "key_count": max(_count(conflict.get("key_count")) or 0, len(kept))}


def _groups(listed: object) -> list[list[str]]:
    """(partition, file id), each."""
    pairs = listed if isinstance(listed, list) else []
    return [
        [text(pair[0]), text(pair[1])]
        for pair in pairs
        if isinstance(pair, list | tuple) and len(pair) == 2
    ]


def _count(value: object, *, most: int = 2**31) -> int | None:
    is_count = type(value) is int and 0 <= value < most
    return value if is_count and isinstance(value, int) else None


def _small(value: object) -> object:
    return value if isinstance(value, int | float | bool) else text(value)
