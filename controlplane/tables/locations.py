"""Where a table may lie: under a configured root, whatever links and dots its path is written with
(threats T1, T2).
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from django.conf import settings

from controlplane.errors import InvalidRequest
from controlplane.tables.deceptive import refuse_deceptive
from workers.errors import InvalidInput
from workers.locations import is_bucket_location, lies_under, resolve_location

_FORBIDDEN = re.compile(r"[*?\[\]'\"\\%`$<>|;&\x00-\x1f\x7f]")
LOCATION_CHARS_MAX = 700


def checked_location(location: str) -> str:
    """The resolved location, without a trailing slash.

    Raises InvalidRequest: not absolute, forbidden or deceptive characters, outside every root, or a
    root itself.
    """
    if not location.startswith("/") and not is_bucket_location(location):
        raise InvalidRequest(
            "a location must be an absolute path or s3://bucket/prefix", location=location[:200]
        )
    if len(location) > LOCATION_CHARS_MAX or _FORBIDDEN.search(location):
        raise InvalidRequest(
            "the location contains characters that are not allowed", location=location[:200]
        )
    refuse_deceptive(location)
    if ".." in PurePosixPath(location).parts:
        raise InvalidRequest(
            "the location must not contain . or .. as a part", location=location[:200]
        )
    try:
        resolved = resolve_location(location)
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
    for root in settings.SLUICE_TABLE_ROOTS:
        if lies_under(resolved, resolve_location(root)):
            refuse_deceptive(resolved)  # A link may lead to another name.
            return resolved
    raise InvalidRequest(
        "the location is outside the configured table roots", location=location[:200]
    )


def contains(outer: str, inner: str) -> bool:
    """Whether `inner` lies below `outer`; a folder does not contain itself, and `t1` does not
    contain `t10`.
    """
    return inner.startswith(outer.rstrip("/") + "/")


def overlap(first: str, second: str) -> bool:
    return first == second or contains(first, second) or contains(second, first)
