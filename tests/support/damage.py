"""Files that are damaged by chance, and kinds of tables that have such files."""

from __future__ import annotations

import random
from typing import Any

_LOGS: dict[str, Any] = {"table_type": "MERGE_ON_READ"}
_COPIES: dict[str, Any] = {"table_type": "COPY_ON_WRITE"}
_ONE_GROUP = {"hoodie.bucket.index.num.buckets": "1"}
_PARTIAL = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
_LOOKED_UP: dict[str, Any] = {
    "options": {"hoodie.index.type": "BLOOM"},
    "partition_by": ["place"],
}
KINDS: dict[str, dict[str, Any]] = {
    "logs": {**_LOGS, "options": _ONE_GROUP},
    "partial": {**_LOGS, "options": {**_ONE_GROUP, **_PARTIAL}},
    "looked up logs": {**_LOGS, **_LOOKED_UP},
    "copies": _COPIES,
    "looked up copies": {**_COPIES, **_LOOKED_UP},
}
"""Of tables whose files may be damaged, each with what `create_table` takes. They have the columns
`id`, `place` and `ts`.
"""


def fuzzed(content: bytes, chance: random.Random) -> bytes:
    """Bits turned, pieces cut out, doubled or filled, numbers made large."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        piece = changed[at : at + chance.randint(1, 64)]
        match chance.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del changed[at : at + len(piece)]
            case 2:
                changed[at:at] = piece * chance.randint(1, 50)
            case 3:
                changed[at : at + 8] = chance.choice(
                    (b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\0" * 8)
                )
            case _:
                del changed[at:]
    return bytes(changed)
