"""The storage of a location: a path of this machine, or `s3://bucket/prefix`. A bucket is reached
by the environment of this process, or by a named connection.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path, PurePosixPath

from workers.connections import BucketConnection
from workers.errors import InvalidInput, StorageFailed
from workers.installation import check_imports
from workers.locations import bucket_place, is_bucket_location
from workers.storage.base import Storage, get_size
from workers.storage.local import LocalStorage
from workers.storage.s3_settings import s3_settings, settings_of_connection

_TEST_TIMEOUT_MS = 5_000
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_PIECE_BYTES = 1 << 20


def open_storage(location: str | Path) -> Storage:
    """Return the storage at this location, without any access yet. Raises InvalidInput."""
    text = str(location)
    if is_bucket_location(text):
        # Loaded only where it is used: most tables are in directories.
        with check_imports():
            from workers.storage.object_store import bucket_storage

        place = bucket_place(text)
        if not place.prefix:
            raise InvalidInput("a table must be below a prefix of its bucket", location=text)
        return bucket_storage(place, s3_settings(os.environ))
    if scheme_match := _SCHEME.match(text):
        raise InvalidInput(
            "a table must be a directory or below s3://bucket/prefix",
            scheme=scheme_match[0].rstrip("/"),
        )
    return LocalStorage(location)


def open_with(connection: BucketConnection | None, location: str) -> Storage:
    """Return the storage at this location, reached by the connection where there is one; the bucket
    itself may be the location then. Raises InvalidInput.
    """
    if connection is None:
        return open_storage(location)
    with check_imports():
        from workers.storage.object_store import bucket_storage

    return bucket_storage(bucket_place(location), settings_of_connection(connection))


def check_bucket(connection: BucketConnection) -> None:
    """List one page below the connection's prefix. Raises StorageFailed within some seconds, with
    the answer of the store and what to do.
    """
    from workers.storage.object_client import ANSWERS, reason
    from workers.storage.object_requests import S3Requests

    settings = settings_of_connection(connection, timeout_ms=_TEST_TIMEOUT_MS)
    try:
        S3Requests(bucket_place(connection.location), settings).has_objects()
    except ANSWERS as error:
        raise StorageFailed(
            "the bucket cannot be listed; check bucket, endpoint, region and keys, which need the "
            "permissions to list the bucket and to read its objects",
            address=connection.shown_address,
            reason=reason(error),
        ) from error


def ensure_local_file(
    place: str, scratch: Path, *, bytes_max: int, connection: BucketConnection | None = None
) -> Path:
    """Return the file at a resolved place: itself, or its copy in `scratch` if it is in a bucket.
    The bucket is reached by the connection, if there is one.

    Raises InvalidInput for an object of more than `bytes_max`, NotFound if there is none,
    StorageFailed.
    """
    if not is_bucket_location(place):
        return Path(place)
    folder, _, name = place.rpartition("/")
    bucket = open_with(connection, folder)
    if (size := get_size(bucket, name)) > bytes_max:
        raise InvalidInput("the object is too large", path=place, bytes=size, most=bytes_max)
    copy = scratch / f"source{PurePosixPath(name).suffix}"
    with bucket.open_data(name) as content, copy.open("wb") as file:
        shutil.copyfileobj(content, file, length=_PIECE_BYTES)
    return copy
