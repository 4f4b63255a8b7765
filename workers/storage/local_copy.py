"""Local copies of objects of buckets, for code that opens files by path alone."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

from workers.connections import BucketConnection
from workers.errors import InvalidInput
from workers.locations import is_bucket_location
from workers.storage.base import get_size
from workers.storage.opener import open_with

_PIECE_BYTES = 1 << 20


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
