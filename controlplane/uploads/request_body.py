"""A file from the body of a request to the folder of uploads, piece by piece. Nothing of it is read
before the checks, and nothing is held in memory or in another folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final

from django.contrib.auth.models import User
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler, StopUpload
from django.http import HttpRequest
from django.http.multipartparser import MultiPartParser, MultiPartParserError
from django.http.request import UnreadablePostError

from controlplane.errors import ControlPlaneError, InvalidRequest
from controlplane.uploads.actions import IncomingUpload, check_may_upload, do_store_upload
from controlplane.uploads.models import Upload
from controlplane.uploads.upload_file import check_size

MULTIPART: Final = "multipart/form-data"
_PIECE_BYTES: Final = 1 << 18
_FORM_BYTES: Final = 1 << 16
"""Largest part of a multipart body next to its file."""


class UploadHandler(FileUploadHandler):
    """Stores the one file of a form as an upload. `take` returns it, `discard` removes it."""

    chunk_size = _PIECE_BYTES

    def __init__(self, owner: User, kind: str = "") -> None:
        super().__init__()
        self._owner = owner
        self._kind = kind
        self._incoming: IncomingUpload | None = None
        self._upload: Upload | None = None
        self._error: ControlPlaneError | None = None

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        try:
            if self._incoming is not None:
                raise InvalidRequest("send one file at a time")
            self._incoming = IncomingUpload(self._owner, self.file_name or "", self._kind)
        except ControlPlaneError as error:
            self._stop(error)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        assert self._incoming is not None
        try:
            self._incoming.write(raw_data)
        except ControlPlaneError as error:
            self._stop(error)

    def file_complete(self, file_size: int) -> UploadedFile[bytes]:
        """Return an empty file for the form: the upload has the content."""
        return UploadedFile(file=BytesIO(), name=self.file_name, size=file_size)

    def upload_interrupted(self) -> None:
        self.discard()

    def discard(self) -> None:
        """Remove what arrived."""
        if self._incoming is not None:
            self._incoming.discard()

    def take(self) -> Upload:
        """Return the stored upload. Raises what stopped it, and InvalidRequest for no file."""
        if self._error is not None:
            self.discard()
            raise self._error
        if self._incoming is None:
            raise InvalidRequest("choose a file: the request has none")
        if self._upload is None:
            self._upload = self._incoming.finish()
        return self._upload

    def _stop(self, error: ControlPlaneError) -> None:
        self._error = error
        self.discard()
        raise StopUpload(connection_reset=True) from error


def check_request(request: HttpRequest, owner: User) -> None:
    """Refuse a request before its body is read: PermissionDenied, TooLarge, StorageUnavailable."""
    check_may_upload(owner)
    declared_bytes = _find_length(request)
    if declared_bytes is not None and is_form(request):
        declared_bytes = max(0, declared_bytes - _FORM_BYTES)
    check_size(declared_bytes)


def is_form(request: HttpRequest) -> bool:
    """Return whether the body is a form with a file, and not the file alone."""
    return request.content_type == MULTIPART


def receive_upload(request: HttpRequest, owner: User, name: str, kind: str = "") -> Upload:
    """Store the file of a request: the raw body, called `name`, or the file of a form.

    Raises PermissionDenied, TooLarge, InvalidRequest, NotAllowedNow, StorageUnavailable.
    """
    check_request(request, owner)
    try:
        if not is_form(request):
            declared = _find_length(request)
            pieces = _read_pieces(request)
            return do_store_upload(owner, name, pieces, kind=kind, declared_bytes=declared)
        return _receive_form(request, UploadHandler(owner, kind))
    except UnreadablePostError as error:
        raise InvalidRequest("the upload was interrupted: send the file again") from error


def _receive_form(request: HttpRequest, handler: UploadHandler) -> Upload:
    try:
        # Its files would be read by other handlers, were the form read by Django's request.
        MultiPartParser(request.META, request, [handler], request.encoding).parse()
    except MultiPartParserError as error:
        handler.discard()
        raise InvalidRequest("the form cannot be read: send multipart/form-data") from error
    except BaseException:
        handler.discard()
        raise
    return handler.take()


def _read_pieces(request: HttpRequest) -> Iterator[bytes]:
    while piece := request.read(_PIECE_BYTES):
        yield piece


def _find_length(request: HttpRequest) -> int | None:
    try:
        return int(request.META.get("CONTENT_LENGTH") or "")
    except ValueError:
        return None
