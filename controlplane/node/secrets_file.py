"""The secrets of one node: made once, kept in `secrets.json` (mode 0600), never logged, never an
argument.

A secret that a later version needs is added to the file; one that is there is never changed.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from workers.storage.synced_directories import sync_directory

_READABLE = "abcdefghjkmnpqrstuvwxyz23456789"
_KEY_BYTES = 48
_TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True, repr=False)
class NodeSecrets:
    django_secret_key: str
    worker_token: str
    marker_secret: str
    metrics_token: str
    spark_token: str
    admin_password: str
    viewer_password: str


def ensure_secrets(path: Path) -> NodeSecrets:
    """What the file holds, completed with fresh values for what it lacks."""
    stored = _stored(path)
    complete = NodeSecrets(
        **{
            field.name: stored.get(field.name) or _MAKERS[field.name]()
            for field in fields(NodeSecrets)
        }
    )
    if stored != asdict(complete):
        write_privately(path, json.dumps({**stored, **asdict(complete)}, indent=2) + "\n")
    return complete


def read_secrets(path: Path) -> NodeSecrets | None:
    """None when no node was ever started here."""
    stored = _stored(path)
    names = [field.name for field in fields(NodeSecrets)]
    return (
        NodeSecrets(**{name: stored[name] for name in names}) if set(names) <= set(stored) else None
    )


def throwaway_key() -> str:
    """For a command that needs Django but no secret, where no node was ever started."""
    return secrets.token_urlsafe(_KEY_BYTES)


def _stored(path: Path) -> dict[str, str]:
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def write_privately(path: Path, content: str) -> None:
    """Create or replace a file that only this user may read; it is on the disk when this returns:
    who loses the keys of a node loses every session and token that was made with them.
    """
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_directory(path.parent)


def _key() -> str:
    return secrets.token_urlsafe(_KEY_BYTES)


def _token() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


def _password() -> str:
    """Four groups of four letters that nobody mistakes for each other: about 78 bits."""
    groups = ("".join(secrets.choice(_READABLE) for _ in range(4)) for _ in range(4))
    return "-".join(groups)


_MAKERS: dict[str, Callable[[], str]] = {
    "django_secret_key": _key,
    "worker_token": _token,
    "marker_secret": _token,
    "metrics_token": _token,
    "spark_token": _token,
    "admin_password": _password,
    "viewer_password": _password,
}
