"""When two states of a table are the same case."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from functools import lru_cache

from tests.support.memory_storage import Files
from tests.support.referee import UNREAD
from workers.concurrency.locks.record import decode_lock
from workers.table_layout import LOCK

_TIMELINE = ".hoodie/timeline/"
_LOCK_TOLD = re.compile(rb'sluice\.lock..?\{"provider"[^}]*\}', re.DOTALL)
"""How a commit held the lock: the key, the length in Avro, and the JSON."""
_NOT_LOOKED_INTO = frozenset({"rollback", "restore", "clean", "savepoint"})


def digest(files: Files) -> str:
    """Equal for states that differ in nothing but times of change and by whom the lock was held."""
    total = sum(_digest_of_file(path, content) for path, (content, _) in files.items())
    return f"{total % 2**64:016x}"


def digest_for_readers(files: Files) -> str:
    """Equal for states that differ in nothing that a reader looks into.

    Of rollbacks, cleans and the like that is how many of them stand there.
    """
    read = {path: file for path, file in files.items() if not path.startswith(UNREAD)}
    counted: Counter[str] = Counter()
    for path in [one for one in read if one.startswith(_TIMELINE)]:
        suffix = path.partition(".hoodie/")[2].partition(".")[2]
        if suffix.partition(".")[0] in _NOT_LOOKED_INTO:
            counted[suffix] += 1
            del read[path]
    return f"{digest(read)} {sorted(counted.items())}"


@lru_cache(maxsize=10_000)
def _digest_of_file(path: str, content: bytes) -> int:
    if path == LOCK.path:
        # The next one acts on whether it is held, and on what was about to be decided under it.
        held = decode_lock(content)
        content = f"{held.is_expired} {held.completing}".encode()
    content = _LOCK_TOLD.sub(b"", content)
    named = path.encode() + b"\0" + content
    return int.from_bytes(hashlib.blake2b(named, digest_size=16).digest())
