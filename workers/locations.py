"""Locations of tables, by text alone: an absolute path, or `s3://bucket/prefix`.

This module never accesses a file system or a bucket.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from workers.errors import InvalidInput

_SCHEME = "s3://"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")
_BANNED = re.compile(r"[\x00-\x1f\x7f?#\\]")
_BETWEEN_ROOTS = re.compile(rf"{re.escape(os.pathsep)}(?!//)")
"""Roots are parted as the parts of PATH are; the colon of a scheme parts nothing."""
_WITH_NAMESPACE = re.compile(r"([a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?)=(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """A prefix of a bucket, checked by `bucket_place`; either may be missing."""

    bucket: str
    prefix: str
    """Without a slash at either end; empty for the bucket itself, which holds no table."""

    @property
    def location(self) -> str:
        """`s3://bucket/prefix`, without a slash at the end."""
        return f"{_SCHEME}{self.bucket}/{self.prefix}".rstrip("/")

    def contains(self, other: BucketPlace) -> bool:
        """Return True if `other` is below it. A place does not contain itself, and `t1` does not
        contain `t10`.
        """
        start = f"{self.prefix}/" if self.prefix else ""
        return self.bucket == other.bucket and (
            other.prefix.startswith(start) and other.prefix != self.prefix
        )


def is_bucket_location(location: str) -> bool:
    """Return True if it begins with the scheme of buckets; the rest is not checked."""
    return location.startswith(_SCHEME)


def bucket_place(location: str) -> BucketPlace:
    """Return the bucket and prefix of `s3://bucket/prefix`. Raises InvalidInput, which repeats
    nothing that may be a password.
    """
    bucket, _, prefix = location.removeprefix(_SCHEME).rstrip("/").partition("/")
    safe_text = "…" if "@" in location else location[:200]
    if not is_bucket_location(location) or not _BUCKET.match(bucket) or ".." in bucket:
        raise InvalidInput("write a location in a bucket as s3://bucket/prefix", location=safe_text)
    parts = prefix.split("/") if prefix else []
    if _BANNED.search(prefix) or any(part in ("", ".", "..") for part in parts):
        raise InvalidInput("the prefix has parts that are not allowed", location=safe_text)
    return BucketPlace(bucket, prefix)


@dataclass(frozen=True, slots=True)
class SourceRoot:
    """A place below which files with rows may be, and its owner."""

    place: str
    """As `resolve_location` gives it."""
    namespace: str
    """Empty where the setting names none."""

    def __str__(self) -> str:
        return f"{self.namespace}={self.place}" if self.namespace else self.place


def source_root(text: str) -> SourceRoot:
    """Parse the root that `sales=/srv/drop` or `/srv/drop` describes, links resolved. Raises
    InvalidInput for what is neither an absolute path nor `s3://bucket/prefix`.
    """
    named = _WITH_NAMESPACE.fullmatch(text)
    namespace, place = (named[1], named[2]) if named else ("", text)
    if not (place.startswith("/") or is_bucket_location(place)):
        raise InvalidInput(
            "a source root is written /folder, s3://bucket/prefix, or namespace=/folder", root=text
        )
    return SourceRoot(resolve_location(place), namespace)


def parse_source_roots(text: str) -> list[SourceRoot]:
    """Parse the roots in SLUICE_SOURCE_ROOTS. Raises InvalidInput."""
    return [source_root(root) for root in _BETWEEN_ROOTS.split(text) if root]


def source_roots_above(
    place: str, sources: Iterable[SourceRoot], tables: Iterable[str]
) -> list[SourceRoot]:
    """Return the source roots of a resolved place: the deepest of all roots above it decides, and
    if that is a table root too, there is none. There is also none for a place with a table root
    below it.
    """
    above = [root for root in sources if lies_under(place, root.place)]
    depth = max((len(root.place) for root in above), default=0)
    for table in tables:
        is_of_tables = lies_under(place, table) and len(table) >= depth
        if is_of_tables or place == table or lies_under(table, place):
            return []
    return [root for root in above if len(root.place) == depth]


def folders_above(place: str) -> list[str]:
    """List the folders above a resolved place, the nearest first; without the root of the file
    system, and without the bucket itself.
    """
    folders = []
    folder = place.rpartition("/")[0]
    shortest = len(_SCHEME) if is_bucket_location(place) else 0
    while len(folder) > shortest and "/" in folder[shortest:]:
        folders.append(folder)
        folder = folder.rpartition("/")[0]
    return folders


def parse_roots(text: str) -> list[str]:
    """Parse the roots in a variable such as SLUICE_TABLE_ROOTS, links resolved.

    Raises InvalidInput for an invalid bucket root.
    """
    roots = [root for root in _BETWEEN_ROOTS.split(text) if root]
    return [resolve_location(root) for root in roots]


def resolve_location(location: str) -> str:
    """Return the location in its only spelling. Raises InvalidInput."""
    if is_bucket_location(location):
        return bucket_place(location).location
    return os.path.realpath(location)


def lies_under(location: str, root: str) -> bool:
    """Return True if it is strictly below; both as `resolve_location` returns them."""
    if is_bucket_location(location) != is_bucket_location(root):
        return False
    if is_bucket_location(root):
        return bucket_place(root).contains(bucket_place(location))
    return location.startswith(root.rstrip("/") + "/")
