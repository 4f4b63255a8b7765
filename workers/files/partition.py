"""`.hoodie_partition_metadata`: what makes a directory a partition.

Without it Spark reads no row of the directory, silently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import TypeVar

from workers.clock import InstantTime
from workers.storage.base import FileInfo, Storage, join

METADATA_NAME = ".hoodie_partition_metadata"
# Other writers may keep it in the base file format (`hoodie.partition.metafile.use.base.format`).
_METADATA_NAMES = (METADATA_NAME, f"{METADATA_NAME}.parquet", f"{METADATA_NAME}.orc")
_File = TypeVar("_File")


def ensure_partition(storage: Storage, partition: str, instant: InstantTime) -> None:
    """Make the directory a partition if it is none yet; the first caller's instant stays."""
    path = join(partition, METADATA_NAME)
    if storage.info(path) is not None:
        return
    depth = partition.count("/") + 1 if partition else 0
    text = f"#partition metadata\ncommitTime={instant}\npartitionDepth={depth}\n"
    storage.put_if_absent(path, text.encode("ascii"))


def is_partition(storage: Storage, directory: str) -> bool:
    """Whether the directory holds partition metadata, in any of the formats that writers use."""
    usual, *others = (join(directory, name) for name in _METADATA_NAMES)
    return storage.info(usual) is not None or any(storage.at_once(storage.info, others))


def list_partitions(storage: Storage) -> list[str]:
    """Every partition's path, sorted; `[""]` when the table itself is the one partition."""
    partitions: list[str] = []
    level = [""]
    while level:
        below = storage.at_once(partial(_children, storage), level)
        partitions += [
            place for place, children in zip(level, below, strict=True) if children is None
        ]
        level = [child for children in below for child in children or ()]
    return sorted(partitions)


def files_by_partition(
    storage: Storage, partitions: Sequence[str] | None = None
) -> dict[str, Sequence[FileInfo]]:
    """By partition path, the files directly in it: of these partitions, or of all there are."""
    if partitions is None:
        return _by_partition(storage, storage.list_files, attrgetter("name"))
    return dict(zip(partitions, storage.at_once(storage.list_files, partitions), strict=True))


def names_by_partition(storage: Storage) -> dict[str, Sequence[str]]:
    """The names of the files directly in each partition, by its path."""
    return _by_partition(storage, storage.list_names, str)


def _by_partition(
    storage: Storage, listing: Callable[[str], Sequence[_File]], name_of: Callable[[_File], str]
) -> dict[str, Sequence[_File]]:
    """One look at a directory tells both whether it is a partition and what it has."""
    partitions: dict[str, Sequence[_File]] = {}
    level = [""]
    while level:
        listed = dict(zip(level, storage.at_once(listing, level), strict=True))
        here = {
            place: files
            for place, files in listed.items()
            if any(name_of(file) in _METADATA_NAMES for file in files)
        }
        partitions |= here
        others = [place for place in level if place not in here]
        below = storage.at_once(partial(_directories, storage), others)
        level = [child for children in below for child in children]
    return dict(sorted(partitions.items()))


def _children(storage: Storage, directory: str) -> list[str] | None:
    """Directories where partitions may be; None for one that is a partition itself."""
    return None if is_partition(storage, directory) else _directories(storage, directory)


def _directories(storage: Storage, directory: str) -> list[str]:
    directories = storage.list_directories(directory)
    return [one for one in directories if not one.rpartition("/")[2].startswith(".")]
