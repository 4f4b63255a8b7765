"""Uploads as plain rows, and the stored file of one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest
from controlplane.uploads.models import Upload
from controlplane.uploads.places import (
    build_place,
    build_reference,
    choose_suffix,
    find_upload_id,
    is_upload,
)
from workers.loading.options import format_named

NOT_THERE = (
    "upload not found: it was removed after its operation or after some days, or another user "
    "sent it. Upload the file again"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadRow:
    """A file of rows that the caller uploaded."""

    id: UUID
    path: str
    """What a source names it by: `upload:` and the id."""
    name: str
    """As it was called where it came from."""
    kind: str
    """csv, json or parquet, by its name; empty where that does not show it."""
    bytes: int
    created_at: datetime
    expires_at: datetime
    """Removed then, unless an operation that loads it is open; earlier once one has loaded it."""
    operations: list[UUID]
    """Those that load it or tried to."""


def upload_rows(owner: User) -> list[UploadRow]:
    """List the uploads of one user, the newest first. Two queries."""
    uploads = Upload.objects.filter(owner=owner).prefetch_related("uses")
    return [upload_row(upload) for upload in uploads]


def upload_row(upload: Upload) -> UploadRow:
    """Return the upload as its owner sees it."""
    uses = list(upload.uses.all())
    used_at = max([upload.created_at, *(use.used_at for use in uses)])
    return UploadRow(
        id=upload.pk,
        path=build_reference(upload.pk),
        name=upload.name,
        kind=format_named(f"x{upload.suffix}"),
        bytes=upload.bytes,
        created_at=upload.created_at,
        expires_at=used_at + timedelta(days=settings.SLUICE_UPLOAD_DAYS),
        operations=[use.operation for use in uses],
    )


def find_upload(path: str, by: User | None) -> Upload:
    """Return the upload that the path names. It belongs to `by`; without a user it may belong to
    anyone, because its operation was checked before.

    Raises InvalidRequest, the same for one of another user as for none.
    """
    upload_id = find_upload_id(path)
    uploads = Upload.objects.all() if by is None else Upload.objects.filter(owner=by)
    upload = None if upload_id is None else uploads.filter(pk=upload_id).first()
    if upload is None or not Path(get_place(upload)).is_file():
        raise InvalidRequest(NOT_THERE, path=path[:200])
    return upload


def name_source(path: str) -> str:
    """Return the name of a file for its format: the same as `name_file`, and the path itself for an
    upload that was removed.
    """
    try:
        return name_file(path)
    except InvalidRequest:
        return path


def name_file(path: str) -> str:
    """Return how messages name the file at `path`: an upload by its original name, with a suffix
    that shows its format; any other by its path.
    """
    upload = find_upload(path, None) if is_upload(path) else None
    if upload is None:
        return path
    name = PurePosixPath(upload.name).name or "upload"
    return name if choose_suffix(name) == upload.suffix else f"{name}{upload.suffix}"


def get_place(upload: Upload) -> str:
    """Return the path of its file."""
    return build_place(upload.owner_id, upload.pk, upload.suffix)
