"""The directories of a table that are partitions, and `.hoodie_partition_metadata` in them.

Without that file Spark reads no row of the directory, silently. A copy of a table may lack it, and
the directory of a write that has not committed has none yet. Both are listed here, because they
have data files; `VisibleFiles` decides which of these count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import TypeVar

from workers.clock import InstantTime
from workers.files.names import parse_base_file, parse_log_file
from workers.storage.base import FileInfo, Storage, join

METADATA_NAME = ".hoodie_partition_metadata"
# Other writers may keep it in the base file format (`hoodie.partition.metafile.use.base.format`).
_METADATA_NAMES = (METADATA_NAME, f"{METADATA_NAME}.parquet", f"{METADATA_NAME}.orc")
_File = TypeVar("_File")


def metadata_path(partition: str) -> str:
    """Return the path of the file that makes the directory a partition for every reader."""
    return join(partition, METADATA_NAME)


def has_metadata(names: Iterable[str]) -> bool:
    """Check whether partition metadata, in any format, is among the names of a directory."""
    return any(name in _METADATA_NAMES for name in names)


def ensure_partition(storage: Storage, partition: str, instant: InstantTime) -> None:
    """Write the metadata of a partition that has none; the first caller's instant stays."""
    path = metadata_path(partition)
    if storage.info(path) is not None:
        return
    depth = partition.count("/") + 1 if partition else 0
    text = f"#partition metadata\ncommitTime={instant}\npartitionDepth={depth}\n"
    storage.put_if_absent(path, text.encode("ascii"))


def hides_directories(names: Iterable[str]) -> bool:
    """Check whether, by its names, a directory is a partition with rows for every reader."""
    listed = list(names)
    return has_metadata(listed) and _has_data(listed)


def drop_empty_directories(storage: Storage, directories: Iterable[str]) -> None:
    """Delete directories with no file but partition metadata: hudi-rs takes the innermost directory
    for the partition and reads no row of the one around it. Object stores have no empty
    directories.
    """
    if not storage.is_local:
        return
    for directory in directories:
        if all(file.name in _METADATA_NAMES for file in storage.list_tree(directory)):
            storage.delete_tree(directory)


def is_partition(storage: Storage, directory: str) -> bool:
    """Check whether the directory has partition metadata, in any format, or data files."""
    if storage.info(metadata_path(directory)) is not None:
        return True
    names = storage.list_names(directory)
    return has_metadata(names) or _has_data(names)


def list_partitions(storage: Storage) -> list[str]:
    """List every partition's path, sorted; `[""]` when the table itself is the only partition."""
    return list(names_by_partition(storage))


def files_by_partition(
    storage: Storage, partitions: Sequence[str] | None = None
) -> dict[str, Sequence[FileInfo]]:
    """Return the files directly in each partition, by its path: in these partitions, or in all."""
    if partitions is None:
        return _by_partition(storage, storage.list_files, attrgetter("name"))
    return dict(zip(partitions, storage.at_once(storage.list_files, partitions), strict=True))


def names_by_partition(storage: Storage) -> dict[str, Sequence[str]]:
    """Return the names of the files directly in each partition, by its path."""
    return _by_partition(storage, storage.list_names, str)


def _by_partition(
    storage: Storage, listing: Callable[[str], Sequence[_File]], name_of: Callable[[_File], str]
) -> dict[str, Sequence[_File]]:
    """Return the listing of each partition by its path. One listing of a directory shows both
    whether it is a partition and its files.
    """
    partitions: dict[str, Sequence[_File]] = {}
    level = [""]
    while level:
        listed = dict(zip(level, storage.at_once(listing, level), strict=True))
        others = []
        for place, files in listed.items():
            is_leaf = has_metadata(map(name_of, files))
            if is_leaf or _has_data(map(name_of, files)):
                partitions[place] = files
            if not is_leaf:
                others.append(place)
        below = storage.at_once(partial(_directories, storage), others)
        level = [child for children in below for child in children]
    return dict(sorted(partitions.items()))


def _has_data(names: Iterable[str]) -> bool:
    return any(parse_base_file(name) or parse_log_file(name) for name in names)


def _directories(storage: Storage, directory: str) -> list[str]:
    directories = storage.list_directories(directory)
    return [
        directory for directory in directories if not directory.rpartition("/")[2].startswith(".")
    ]
