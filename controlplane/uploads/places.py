"""Paths of uploads, and the names that requests have for them, by text alone. Opens no file.

A request names an upload as `upload:<id>` wherever it names a file by its path. A job names the
stored file, because a worker knows no database.
"""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath
from typing import Final
from uuid import UUID

from django.conf import settings

from workers.locations import lies_under

PREFIX: Final = "upload:"
_SUFFIX: Final = re.compile(
    r"\.(?:csv|tsv|json|jsonl|ndjson|parquet)(?:\.(?:gz|zst))?\Z", re.IGNORECASE
)
_ADDRESS: Final = re.compile(r"/api/v1/uploads/|/tables/create/upload|/t/[-\w]+/write/upload")


def upload_folder() -> str:
    """Return the folder of all uploads, links resolved: the setting, or one in the node's home."""
    folder = settings.SLUICE_UPLOAD_FOLDER or str(settings.SLUICE_HOME / "uploads")
    return os.path.realpath(folder)


def build_place(owner_key: int, upload_id: UUID, suffix: str) -> str:
    """Return the path of the stored file."""
    return f"{upload_folder()}/{owner_key}/{upload_id}{suffix}"


def build_reference(upload_id: UUID) -> str:
    """Return what a request names the upload by."""
    return f"{PREFIX}{upload_id}"


def choose_suffix(name: str, kind: str = "") -> str:
    """Return the suffix of the stored file, from a fixed list: the one of `name`, or of `kind`."""
    if match := _SUFFIX.search(name):
        return match[0].lower()
    return f".{kind}" if kind in ("csv", "json", "parquet") else ""


def find_upload_id(path: str) -> UUID | None:
    """Return the id of the upload that the path names, as a reference or as a stored file. None for
    any other path.
    """
    if path.startswith(PREFIX):
        return _parse_id(path.removeprefix(PREFIX))
    if not is_upload(path):
        return None
    return _parse_id(PurePosixPath(path).name.partition(".")[0])


def is_upload(path: str) -> bool:
    """Return whether the path names an upload, or a file in the folder of uploads."""
    if path.startswith(PREFIX):
        return True
    if not path.startswith("/") or "\0" in path:
        return False
    return lies_under(os.path.realpath(path), upload_folder())


def to_reference(path: str) -> str:
    """Return the reference for the path of a stored upload, and any other path as it is."""
    upload_id = None if path.startswith(PREFIX) else find_upload_id(path)
    return path if upload_id is None else build_reference(upload_id)


def is_upload_address(path: str) -> bool:
    """Return whether a request to this address sends a file, which no middleware may read."""
    return _ADDRESS.fullmatch(path) is not None


def _parse_id(text: str) -> UUID | None:
    try:
        parsed = UUID(text)
    except ValueError:
        return None
    return parsed if str(parsed) == text else None
