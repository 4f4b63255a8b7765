"""Which program this is: what it makes of the same rows may differ from what another one does."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("controlplane", "workers")
_PINS = "requirements.txt"


@cache
def program() -> str:
    """A digest of our own sources, and of which libraries they run with. The same in all processes
    that run the same; read once in each.
    """
    digest = sha256()
    sources = [path for name in _PACKAGES for path in (_ROOT / name).rglob("*.py")]
    for path in (*sorted(sources), _ROOT / _PINS):
        digest.update(str(path.relative_to(_ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
