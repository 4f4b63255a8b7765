"""Uploads in requests and jobs: a request names one as `upload:<id>`, its job by the stored file.

An upload is never removed while an open operation needs it: one that waits for approval, is queued,
runs, or whose outcome is unknown. Storing an operation and removing an upload hold the same row.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Max, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.operations.models import Operation
from controlplane.operations.states import OPEN, OperationState
from controlplane.uploads.actions import do_remove_upload
from controlplane.uploads.models import Upload, UploadUse
from controlplane.uploads.places import find_upload_id, to_reference, upload_folder
from controlplane.uploads.queries import NOT_THERE
from controlplane.uploads.upload_file import PART_SUFFIX
from workers.table_services.input_rows import PATH_KEY

log = logging.getLogger(__name__)

_ORPHAN_AFTER: Final = timedelta(days=1)
"""A file without a row is then of an upload that broke off, or of a user who was deleted."""
_PLACES: Final = ("source", "parameters")
"""The parts of a request or a job that name a file by `path`."""


def to_references(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job as it was requested: with `upload:<id>` for stored files."""
    return {
        name: _to_reference(part) if name in _PLACES and isinstance(part, Mapping) else part
        for name, part in body.items()
    }


def with_references(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an operation for a page: uploads by their reference."""
    job = parameters.get("job")
    if not isinstance(job, Mapping):
        return dict(parameters)
    return {**parameters, "job": to_references(job)}


def name_uploads(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{"upload_name": name}` for a job that loads an upload, and nothing for any other."""
    for upload_id in _list_ids(body):
        if name := Upload.objects.filter(pk=upload_id).values_list("name", flat=True).first():
            return {"upload_name": name}
    return {}


def check_no_upload(body: Mapping[str, Any]) -> None:
    """Refuse, as InvalidRequest, an upload where a file is read more than once."""
    if any(True for _ in _list_ids(body)):
        raise InvalidRequest(
            "an upload is loaded once and then removed, so no schedule can name one: put the file "
            "into a source root or a bucket"
        )


def note_uses(operation: Operation) -> None:
    """Store that the operation loads the uploads that its job names. Call in the transaction that
    stores it. Raises InvalidRequest for an upload that was removed since the request was checked.
    """
    for upload_id in _list_ids(operation.parameters.get("job", {})):
        upload = Upload.objects.select_for_update().filter(pk=upload_id).first()
        if upload is None:
            raise InvalidRequest(NOT_THERE)
        UploadUse.objects.get_or_create(upload=upload, operation=operation.pk)


def do_delete_upload(upload: Upload, *, by: str) -> None:
    """Delete an upload at its owner's request. Raises NotAllowedNow while an operation needs it."""
    with transaction.atomic():
        held = Upload.objects.select_for_update().filter(pk=upload.pk).first()
        if held is None:
            return
        if _is_needed(held):
            raise NotAllowedNow("an operation uses this upload: cancel it first")
        do_record(
            who=by,
            what="upload.delete",
            subject=str(held.pk),
            result="done",
            details={"name": held.name, "bytes": held.bytes},
        )
        do_remove_upload(held)


def do_remove_loaded() -> int:
    """Remove uploads that an operation has loaded; return how many. One query where none is."""
    loaded = Operation.objects.filter(state=OperationState.SUCCEEDED.value)
    uses = UploadUse.objects.filter(operation__in=loaded.values("pk"))
    return _remove(list(uses.values_list("upload", flat=True).distinct()))


def do_remove_expired(now: datetime | None = None) -> int:
    """Remove uploads that no request has named for some days, and files without a row; return how
    many uploads.
    """
    at = now or timezone.now()
    before = at - timedelta(days=settings.SLUICE_UPLOAD_DAYS)
    last_used = Coalesce(Max("uses__used_at"), F("created_at"))
    expired = Upload.objects.annotate(last_used=last_used).filter(
        Q(created_at__lt=before), Q(last_used__lt=before)
    )
    count = _remove(list(expired.values_list("pk", flat=True)))
    _remove_orphans(at - _ORPHAN_AFTER)
    return count


def _remove(upload_ids: list[UUID]) -> int:
    count = 0
    for upload_id in upload_ids:
        with transaction.atomic():
            upload = Upload.objects.select_for_update().filter(pk=upload_id).first()
            if upload is not None and not _is_needed(upload):
                do_remove_upload(upload)
                count += 1
    if count:
        log.info("removed uploads: count=%s", count)
    return count


def _is_needed(upload: Upload) -> bool:
    users = Operation.objects.filter(pk__in=upload.uses.values("operation"))
    return users.filter(state__in=sorted(OPEN)).exists()


def _remove_orphans(before: datetime) -> None:
    for file in _list_files(Path(upload_folder())):
        if file.stat().st_mtime >= before.timestamp():
            continue
        upload_id = None if file.suffix == PART_SUFFIX else find_upload_id(str(file))
        if upload_id is None or not Upload.objects.filter(pk=upload_id).exists():
            file.unlink(missing_ok=True)


def _list_files(folder: Path) -> Iterator[Path]:
    """List what is stored in the folders of owners, links left out."""
    if not folder.is_dir():
        return
    for owner in os.scandir(folder):
        if owner.is_dir(follow_symlinks=False):
            with os.scandir(owner) as entries:
                yield from (Path(file) for file in entries if file.is_file(follow_symlinks=False))


def _list_ids(body: Mapping[str, Any]) -> Iterator[UUID]:
    """List the uploads that a request or a job names."""
    for name in _PLACES:
        part = body.get(name)
        if not isinstance(part, Mapping) or part.get("connection"):
            continue
        path = part.get(PATH_KEY)
        if isinstance(path, str) and (upload_id := find_upload_id(path.strip())) is not None:
            yield upload_id


def _to_reference(part: Mapping[str, Any]) -> dict[str, Any]:
    path = part.get(PATH_KEY)
    if not isinstance(path, str) or part.get("connection"):
        return dict(part)
    return {**part, PATH_KEY: to_reference(path)}
