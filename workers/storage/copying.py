"""Objects of buckets copied to this machine, for whatever opens files by path alone."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

from workers.connections import BucketConnection
from workers.errors import InvalidInput
from workers.locations import is_bucket_location
from workers.storage.base import size_of
from workers.storage.opening import open_with

_PIECE_BYTES = 1 << 20


def file_here(
    place: str, scratch: Path, *, bytes_max: int, connection: BucketConnection | None = None
) -> Path:
    """The file at a resolved place: itself, or its copy in `scratch` where it lies in a bucket,
    which is reached by the connection where one is named.

    Raises InvalidInput for an object of more than `bytes_max`, NotFound for one that there is not,
    StorageFailed.
    """
    if not is_bucket_location(place):
        return Path(place)
    folder, _, name = place.rpartition("/")
    bucket = open_with(connection, folder)
    if (size := size_of(bucket, name)) > bytes_max:
        raise InvalidInput("the object is too large", path=place, bytes=size, most=bytes_max)
    copy = scratch / f"source{PurePosixPath(name).suffix}"
    with bucket.open_data(name) as content, copy.open("wb") as file:
        shutil.copyfileobj(content, file, length=_PIECE_BYTES)
    return copy
