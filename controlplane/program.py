"""Which program this is: what it makes of the same rows may differ from what another one does."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.metadata import distributions

from packaging.utils import canonicalize_name

from workers.installation import IS_CHECKOUT, ROOT, format_command

__all__ = ["format_command", "list_installed", "program"]

_PACKAGES = ("controlplane", "workers")


@cache
def program() -> str:
    """Return a digest of our own sources and of the libraries they run with. It is the same in all
    processes that run the same, and is computed once in each.
    """
    digest = sha256()
    for path in sorted(path for name in _PACKAGES for path in (ROOT / name).rglob("*.py")):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    if IS_CHECKOUT:
        digest.update((ROOT / "requirements.txt").read_bytes())
    else:
        digest.update(repr(sorted(list_installed().items())).encode())
    return digest.hexdigest()


def list_installed() -> dict[str, str]:
    """Return the version of each package of this environment but Sluice, by its normal name."""
    named = {
        canonicalize_name(found.metadata["Name"]): found.version
        for found in distributions()
        if found.metadata["Name"]
    }
    return {name: version for name, version in named.items() if name != "sluice"}
