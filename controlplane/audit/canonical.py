"""The canonical form of audit rows, which is hashed. Pure. The form of a version never changes,
because its rows are verified as long as the database exists.

Version 1. A row's digest is the SHA-256 of the canonical JSON of its content:

    {"at", "details", "object", "plan_hash", "reason", "request_id", "result", "version",
     "what", "who"}

and its link's hash the SHA-256 of the canonical JSON of

    {"digest", "id", "previous_hash", "sequence", "version"}

Canonical JSON has its keys sorted, no blanks, everything outside ASCII escaped; times are UTC with
six digits of microseconds and a `Z`; a float without a fraction is written as the whole number, as
PostgreSQL's `jsonb` returns it. Hashes are 64 hexadecimal digits; the link before the first row has
64 zeros and the number 0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

VERSION = 1
GENESIS_HASH = "0" * 64
_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


def digest_of(
    *,
    at: datetime,
    who: str,
    what: str,
    subject: str,
    reason: str,
    plan_hash: str,
    result: str,
    request_id: str,
    details: Mapping[str, Any],
) -> str:
    """Return the digest of the content of a row, in the newest version."""
    return _hash(
        {
            "version": VERSION,
            "at": at.astimezone(UTC).strftime(_TIME),
            "who": who,
            "what": what,
            "object": subject,
            "reason": reason,
            "plan_hash": plan_hash,
            "result": result,
            "request_id": request_id,
            "details": details,
        }
    )


def link_hash(*, sequence: int, previous_hash: str, row_id: int, digest: str) -> str:
    """Return the hash of a link, which is the `previous_hash` of the next row."""
    return _hash(
        {
            "version": VERSION,
            "sequence": sequence,
            "previous_hash": previous_hash,
            "id": row_id,
            "digest": digest,
        }
    )


def _hash(content: Mapping[str, Any]) -> str:
    text = json.dumps(
        _to_canonical(content), sort_keys=True, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _to_canonical(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {str(name): _to_canonical(inner) for name, inner in content.items()}
    if isinstance(content, list | tuple):
        return [_to_canonical(inner) for inner in content]
    if isinstance(content, float) and content.is_integer():
        return int(content)
    return content
