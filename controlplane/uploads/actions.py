"""Storing an upload, and removing one."""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction

from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.tables.access import Permission, may_somewhere
from controlplane.uploads.models import NAME_CHARS_MAX, Upload
from controlplane.uploads.places import build_place, choose_suffix
from controlplane.uploads.queries import get_place
from controlplane.uploads.upload_file import UploadFile, check_size

PER_USER_MAX: Final = 50
"""Uploads that one user may have stored at once."""
_UNSEEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})


class IncomingUpload:
    """An upload whose bytes arrive. Check the right of the user first (`check_may_upload`)."""

    def __init__(self, owner: User, name: str, kind: str = "") -> None:
        """Raises InvalidRequest for no name, NotAllowedNow for too many uploads of this user or at
        once, StorageUnavailable.
        """
        self._name = clean_name(name)
        if Upload.objects.filter(owner=owner).count() >= PER_USER_MAX:
            raise NotAllowedNow(
                f"you have {PER_USER_MAX} uploads on this node: remove some, or run their writes"
            )
        self._owner = owner
        self._id = uuid.uuid4()
        self._suffix = choose_suffix(self._name, kind)
        self._file = UploadFile(build_place(owner.pk, self._id, self._suffix))

    def write(self, piece: bytes) -> None:
        """Append the piece. Raises TooLarge, StorageUnavailable."""
        self._file.write(piece)

    def discard(self) -> None:
        """Remove what arrived. Does nothing for an upload that is complete."""
        self._file.discard()

    def finish(self) -> Upload:
        """Store the upload, with its audit row. Raises InvalidRequest for an empty file,
        StorageUnavailable; then nothing of it is left.
        """
        try:
            if not self._file.bytes:
                raise InvalidRequest("the file is empty", name=self._name)
            self._file.finish()
            return self._record()
        except BaseException:
            self._file.discard()
            Path(build_place(self._owner.pk, self._id, self._suffix)).unlink(missing_ok=True)
            raise

    def _record(self) -> Upload:
        with transaction.atomic():
            upload = Upload.objects.create(
                pk=self._id,
                owner=self._owner,
                name=self._name,
                suffix=self._suffix,
                bytes=self._file.bytes,
            )
            do_record(
                who=self._owner.get_username(),
                what="upload.create",
                subject=str(upload.pk),
                result="done",
                details={"name": upload.name, "bytes": upload.bytes},
            )
        return upload


def check_may_upload(user: User) -> None:
    """Refuse, as PermissionDenied, a user who may write to no table and create none."""
    if not may_somewhere(user, Permission.OPERATE):
        raise PermissionDenied(f"this requires the {Permission.OPERATE.role} role on a table")


def do_store_upload(
    owner: User,
    name: str,
    pieces: Iterable[bytes],
    *,
    kind: str = "",
    declared_bytes: int | None = None,
) -> Upload:
    """Store the file that arrives in pieces. `declared_bytes` is checked before the first is read;
    None where it is unknown.

    Raises PermissionDenied, TooLarge, InvalidRequest, NotAllowedNow, StorageUnavailable.
    """
    check_may_upload(owner)
    check_size(declared_bytes)
    incoming = IncomingUpload(owner, name, kind)
    try:
        for piece in pieces:
            incoming.write(piece)
    except BaseException:
        incoming.discard()
        raise
    return incoming.finish()


def do_remove_upload(upload: Upload) -> None:
    """Remove the row and the file. Call within a transaction that holds the row, after a check that
    no open operation needs it: the file goes once that has committed.
    """
    place = Path(get_place(upload))
    upload.delete()
    transaction.on_commit(lambda: place.unlink(missing_ok=True))


def clean_name(name: str) -> str:
    """Return the name as text that a page can show: characters without a shape become `_`. Raises
    InvalidRequest where nothing is left.
    """
    clean = "".join("_" if unicodedata.category(char) in _UNSEEN else char for char in name)
    clean = re.sub(r"\s+", " ", clean).strip()
    if not clean.strip("_"):
        raise InvalidRequest("the name of the file must not be empty", name="")
    return clean[-NAME_CHARS_MAX:]
