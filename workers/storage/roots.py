"""Checks of a worker that tables and source files are below configured roots.

A job comes from a queue, so it could name any file of this machine; a path that the variables do
not allow is not opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from workers.connections import BucketConnection
from workers.errors import InvalidInput
from workers.locations import (
    SourceRoot,
    is_bucket_location,
    lies_under,
    parse_roots,
    parse_source_roots,
    resolve_location,
)
from workers.storage.base import Storage
from workers.storage.opener import open_storage
from workers.storage.source_places import (
    check_below_a_source_root,
    check_in_no_table,
    place_in_bucket,
    resolve_source,
)

ROOTS_VARIABLE = "SLUICE_TABLE_ROOTS"
SOURCES_VARIABLE = "SLUICE_SOURCE_ROOTS"
UPLOADS_VARIABLE = "SLUICE_UPLOAD_FOLDER"


def storage_under_root(location: str, environment: Mapping[str, str]) -> Storage:
    """Return the storage at `location`, after links and dots in its path are resolved.

    Raises InvalidInput if no root is configured, or the location is below none.
    """
    resolved = resolve_location(location)
    if not _is_under(resolved, _roots(environment, ROOTS_VARIABLE)):
        raise InvalidInput("table is outside the configured roots", table=location)
    return open_storage(resolved)


def source_under_root(path: str, environment: Mapping[str, str]) -> Path:
    """Return the resolved path of the file to load. It is below a source root, and not in a table.

    Raises InvalidInput, also for an object of a bucket.
    """
    if is_bucket_location(path):
        raise InvalidInput("this takes a file of the node, and no object of a bucket", path=path)
    return Path(rows_place_under_root(path, environment))


def rows_place_under_root(path: str, environment: Mapping[str, str]) -> str:
    """Return the resolved place of a source of rows, as `source_under_root` does, or of an object
    of a bucket: a path, or `s3://bucket/prefix/name`.

    Raises InvalidInput, StorageFailed.
    """
    place = resolve_source(path)
    sources = parse_source_roots(environment.get(SOURCES_VARIABLE, ""))
    if uploads := environment.get(UPLOADS_VARIABLE, ""):
        uploads = resolve_location(uploads)
        sources.append(SourceRoot(uploads, ""))
        _check_upload(place, uploads)
    check_below_a_source_root(place, sources, _roots(environment, ROOTS_VARIABLE))
    check_in_no_table(place)
    return place


def rows_place_in_bucket(
    connection: BucketConnection, path: str, environment: Mapping[str, str]
) -> str:
    """Return the place of the object at `path` below the prefix of a connection.

    Raises InvalidInput, StorageFailed.
    """
    place = place_in_bucket(connection, path, _roots(environment, ROOTS_VARIABLE))
    check_in_no_table(place, connection)
    return place


def _check_upload(place: str, uploads: str) -> None:
    """Check that this host has the upload. Raises InvalidInput if it does not."""
    if lies_under(place, uploads) and not Path(place).is_file():
        raise InvalidInput(
            "the uploaded file is not on the host of this worker: run the worker on the host of "
            f"the pages, or set {UPLOADS_VARIABLE} to a folder that both hosts share",
            path=place,
        )


def _roots(environment: Mapping[str, str], variable: str) -> list[str]:
    return parse_roots(environment.get(variable, ""))


def _is_under(resolved: str, roots: list[str]) -> bool:
    return any(lies_under(resolved, root) for root in roots)
