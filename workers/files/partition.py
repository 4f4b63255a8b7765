"""`.hoodie_partition_metadata`: what makes a directory a partition.

Without it Spark reads no row of the directory, silently.
"""

from __future__ import annotations

from workers.clock import InstantTime
from workers.storage.base import Storage, join

METADATA_NAME = ".hoodie_partition_metadata"
# Other writers may keep it in the base file format (`hoodie.partition.metafile.use.base.format`).
_METADATA_NAMES = (METADATA_NAME, f"{METADATA_NAME}.parquet", f"{METADATA_NAME}.orc")


def ensure_partition(storage: Storage, partition: str, instant: InstantTime) -> None:
    """Make the directory a partition if it is none yet; the first caller's instant stays."""
    depth = partition.count("/") + 1 if partition else 0
    text = f"#partition metadata\ncommitTime={instant}\npartitionDepth={depth}\n"
    storage.put_if_absent(join(partition, METADATA_NAME), text.encode("ascii"))


def is_partition(storage: Storage, directory: str) -> bool:
    return any(storage.info(join(directory, name)) is not None for name in _METADATA_NAMES)


def list_partitions(storage: Storage) -> list[str]:
    """Every partition's path, sorted; `[""]` when the table itself is the one partition."""
    found: list[str] = []
    waiting = [""]
    while waiting:
        directory = waiting.pop()
        if is_partition(storage, directory):
            found.append(directory)
            continue
        waiting += [
            child
            for child in storage.list_directories(directory)
            if not child.rpartition("/")[2].startswith(".")
        ]
    return sorted(found)
