"""From a location to the storage behind it: a path of this machine, or `s3://bucket/prefix`."""

from __future__ import annotations

import os
import re
from pathlib import Path

from workers.errors import InvalidInput
from workers.locations import bucket_place, is_bucket_location
from workers.storage.base import Storage
from workers.storage.local import LocalStorage
from workers.storage.s3_settings import s3_settings

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def open_storage(location: str | Path) -> Storage:
    """The storage at this location, of which nothing is asked yet. Raises InvalidInput."""
    text = str(location)
    if is_bucket_location(text):
        # Loaded only where it is used: most tables lie in directories.
        from workers.storage.object_store import bucket_storage

        place = bucket_place(text)
        if not place.prefix:
            raise InvalidInput("a table lies below a prefix of its bucket", location=text)
        return bucket_storage(place, s3_settings(os.environ))
    if scheme_match := _SCHEME.match(text):
        raise InvalidInput(
            "tables lie in directories or under s3://bucket/prefix",
            scheme=scheme_match[0].rstrip("/"),
        )
    return LocalStorage(location)
