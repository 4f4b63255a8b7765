"""The file of a backup: a tar whose first member is the manifest, which has the size and the digest
of each other member.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Final

from workers.storage.synced_directories import sync_directory

FORMAT: Final = 1
"""The format of the file. A reader refuses a higher one."""
MANIFEST: Final = "manifest.json"
DUMP: Final = "database"
SECRETS: Final = "secrets.json"
_CHUNK_BYTES: Final = 1 << 20
_MANIFEST_BYTES_MAX: Final = 16 << 20


class BackupFailed(Exception):
    """The text states what happened, to what, and what to do. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Member:
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    created_at: str
    vendor: str
    """`sqlite` or `postgresql`."""
    migrations: list[str]
    """Those that had run, as `app.name`."""
    rows: Mapping[str, int]
    """By the name of the database's table."""
    audit_head: str
    """The newest link of the audit's chain, `sequence:hash`."""
    sealed: str
    """A text that only the node's secret key opens."""
    members: Mapping[str, Member] = field(default_factory=dict)
    format: int = FORMAT


def write_archive(path: Path, manifest: Manifest, files: Mapping[str, Path]) -> Manifest:
    """Write the file, which only this user can read, and return the manifest with its members.
    The name `path` is there once the file is complete. Raises BackupFailed if it is there already.
    """
    members = {name: _measure(file) for name, file in files.items()}
    complete = replace(manifest, members=members)
    text = json.dumps(asdict(complete), indent=1, sort_keys=True).encode()
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as target:
            with tarfile.open(fileobj=target, mode="w") as tar:
                _add(tar, MANIFEST, len(text), io.BytesIO(text))
                for name, file in files.items():
                    with file.open("rb") as source:
                        _add(tar, name, members[name].bytes, source)
            target.flush()
            os.fsync(target.fileno())
        try:
            os.link(partial, path)
        except FileExistsError as error:
            raise BackupFailed(f"{path} exists already: name another file, or move it") from error
    finally:
        partial.unlink(missing_ok=True)
    sync_directory(path.parent)
    return complete


def read_manifest(path: Path) -> Manifest:
    """Return the manifest. Raises BackupFailed for a file that is not a backup of this format."""
    try:
        with tarfile.open(path, "r:") as tar:
            first = tar.next()
            if first is None or first.name != MANIFEST or first.size > _MANIFEST_BYTES_MAX:
                raise BackupFailed(f"{path} is not a backup: it has no {MANIFEST} in front")
            source = tar.extractfile(first)
            stored = json.load(source) if source is not None else {}
        if stored.get("format") != FORMAT:
            raise BackupFailed(
                f"{path} has format {stored.get('format')}, this Sluice reads format {FORMAT}: "
                "restore with the version that wrote it, then upgrade"
            )
        members = {name: Member(**member) for name, member in stored.pop("members").items()}
        return Manifest(**stored, members=members)
    except FileNotFoundError as error:
        raise BackupFailed(f"{path} does not exist") from error
    except (tarfile.TarError, ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        raise BackupFailed(f"{path} is not a backup, or is damaged: {error}") from error


def extract(path: Path, folder: Path) -> Manifest:
    """Copy the members into the folder and compare them with the manifest. Raises BackupFailed for
    a member that differs, is missing, or is not in the manifest.
    """
    manifest = read_manifest(path)
    left = dict(manifest.members)
    try:
        with tarfile.open(path, "r:") as tar:
            tar.next()
            while (info := tar.next()) is not None:
                member = left.pop(info.name, None)
                source = tar.extractfile(info)
                if member is None or source is None or info.name not in (DUMP, SECRETS):
                    raise BackupFailed(f"{path} has a member that its manifest lacks: {info.name}")
                with (folder / info.name).open("xb") as target:
                    copied = _copy(source, target)
                if copied != member:
                    raise BackupFailed(f"{path} is damaged: {info.name} is not as it was written")
    except (tarfile.TarError, OSError) as error:
        raise BackupFailed(f"{path} is damaged: {error}") from error
    if left:
        raise BackupFailed(f"{path} is cut off: {', '.join(left)} is missing")
    return manifest


def _measure(file: Path) -> Member:
    with file.open("rb") as source:
        return _copy(source, None)


def _copy(source: IO[bytes], target: IO[bytes] | None) -> Member:
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(_CHUNK_BYTES):
        digest.update(chunk)
        size += len(chunk)
        if target is not None:
            target.write(chunk)
    return Member(size, digest.hexdigest())


def _add(tar: tarfile.TarFile, name: str, size: int, source: IO[bytes]) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    tar.addfile(info, source)
