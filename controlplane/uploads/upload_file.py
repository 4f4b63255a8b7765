"""The private file of an upload while its bytes arrive, counted and written piece by piece."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from django.conf import settings

from controlplane.errors import NotAllowedNow, StorageUnavailable, TooLarge
from controlplane.uploads.places import upload_folder

log = logging.getLogger(__name__)

PART_SUFFIX: Final = ".part"
"""Marks a file that is not complete."""
FREE_BYTES_MIN: Final = 256_000_000
"""On the disk of the folder, after the upload: tables and logs may share that disk."""
AT_ONCE_MAX: Final = 8
"""Uploads that one process receives at once. Each holds one of its request threads."""
_SLOTS: Final = threading.BoundedSemaphore(AT_ONCE_MAX)


def check_size(declared_bytes: int | None) -> None:
    """Refuse, as TooLarge, a body that is longer than the setting allows, before it is read; as
    StorageUnavailable one that the disk has no space for.
    """
    bytes_max = settings.SLUICE_UPLOAD_BYTES_MAX
    if declared_bytes is not None and declared_bytes > bytes_max:
        raise TooLarge(
            f"the file is larger than {bytes_max >> 20:,} MB, the limit of this node: put it into "
            "a source root, or split it",
            bytes=declared_bytes,
            bytes_max=bytes_max,
        )
    folder = Path(upload_folder())
    _create(folder)
    if shutil.disk_usage(folder).free - (declared_bytes or 0) < FREE_BYTES_MIN:
        raise _full()


class UploadFile:
    """A private file that grows. `finish` or `discard` ends it, exactly once."""

    def __init__(self, place: str) -> None:
        """Create the file `place` plus `.part`, with mode 0600.

        Raises NotAllowedNow while too many uploads are received, StorageUnavailable.
        """
        if not _SLOTS.acquire(blocking=False):
            raise NotAllowedNow(
                f"this node is already receiving {AT_ONCE_MAX} files: retry in some seconds"
            )
        self._place = Path(place)
        self._part = Path(f"{place}{PART_SUFFIX}")
        self._is_open = True
        self.bytes = 0
        try:
            _create(self._part.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            self._file = os.fdopen(os.open(self._part, flags, 0o600), "wb")
        except BaseException:
            self._is_open = False
            _SLOTS.release()
            raise

    def write(self, piece: bytes) -> None:
        """Append the piece. Raises TooLarge beyond the limit, StorageUnavailable for a full disk;
        call `discard` then.
        """
        check_bytes = self.bytes + len(piece)
        if check_bytes > settings.SLUICE_UPLOAD_BYTES_MAX:
            check_size(check_bytes)
        try:
            self._file.write(piece)
        except OSError as error:
            raise _full() if _is_full(error) else error from error
        self.bytes = check_bytes

    def finish(self) -> None:
        """Make the file durable under its name. Raises StorageUnavailable for a full disk; call
        `discard` then.
        """
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _full() if _is_full(error) else error from error
        self._part.rename(self._place)
        self._end()

    def discard(self) -> None:
        """Remove what was written. Does nothing after `finish`."""
        if self._is_open:
            self._part.unlink(missing_ok=True)
            self._end()

    def _end(self) -> None:
        self._is_open = False
        _SLOTS.release()
        with suppress(OSError):  # A full disk refuses the last flush of a file that is removed.
            self._file.close()


def _create(folder: Path) -> None:
    """Create the folder for this user alone."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        log.error("the folder of uploads cannot be used: %s", error)
        raise StorageUnavailable(
            "this node cannot store uploads: an admin must check SLUICE_UPLOAD_FOLDER"
        ) from error


def _is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _full() -> StorageUnavailable:
    return StorageUnavailable(
        "the disk of this node has no space for the file: ask an admin to free some, or put the "
        "file into a source root"
    )
