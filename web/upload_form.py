"""The form that sends a file, the upload that a page works with, and earlier ones to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.http import HttpRequest
from django.utils.http import urlencode

from controlplane.uploads.queries import UploadRow, upload_rows
from web.refusals import person

_RECENT_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class RecentUpload:
    row: UploadRow
    url: str
    """The page with this upload as its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadForm:
    address: str
    bytes_max: int
    current: UploadRow | None
    """The upload that the page has as its source."""
    recent: Sequence[RecentUpload]
    """Others that no operation has named yet, the newest first."""


def build_upload_form(request: HttpRequest, address: str, path: str) -> UploadForm:
    """Return the form that posts to `address`, on a page whose source is `path`. Two queries."""
    rows = upload_rows(person(request))
    unused = [row for row in rows if row.path != path and not row.operations]
    return UploadForm(
        address=address,
        bytes_max=settings.SLUICE_UPLOAD_BYTES_MAX,
        current=next((row for row in rows if row.path == path), None),
        recent=[RecentUpload(row, _build_query(row)) for row in unused[:_RECENT_MAX]],
    )


def _build_query(row: UploadRow) -> str:
    return "?" + urlencode({"kind": row.kind or "csv", "path": row.path})
