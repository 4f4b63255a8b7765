"""The index of a table, under Hudi's names.

The bucket index computes a row's file group from its key alone. The others look the key up in the
table's file groups: in those of the row's partition, or, global, in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from workers.errors import InvalidInput
from workers.options.option import Boolean, Option, Text
from workers.options.option_values import boolean

INDEX_KEY: Final = "hoodie.index.type"
CLASS_KEY: Final = "hoodie.index.class"
ENGINE_KEY: Final = "hoodie.index.bucket.engine"
BLOOM_MOVES_KEY: Final = "hoodie.bloom.index.update.partition.path"
SIMPLE_MOVES_KEY: Final = "hoodie.simple.index.update.partition.path"


class IndexKind(StrEnum):
    """The indexes that Sluice writes by, under Hudi's names; the metadata table's are not among
    them.
    """

    BUCKET = "BUCKET"
    SIMPLE = "SIMPLE"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    BLOOM = "BLOOM"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"

    @property
    def looks_up(self) -> bool:
        """True if a key's file group is found in the file groups and not computed from the key."""
        return self is not IndexKind.BUCKET

    @property
    def is_global(self) -> bool:
        """True if a key exists once in the table and not once in each partition."""
        return self in (IndexKind.GLOBAL_SIMPLE, IndexKind.GLOBAL_BLOOM)

    @property
    def has_filters(self) -> bool:
        """True if footers of base files exclude keys."""
        return self in (IndexKind.BLOOM, IndexKind.GLOBAL_BLOOM)

    @property
    def moves_key(self) -> str:
        """The option that decides about a row that arrives with another partition."""
        return BLOOM_MOVES_KEY if self.has_filters else SIMPLE_MOVES_KEY


INDEX_OPTIONS: Final = (INDEX_KEY, CLASS_KEY, ENGINE_KEY, BLOOM_MOVES_KEY, SIMPLE_MOVES_KEY)
_MOVES: Final = (
    "Under this global index, a row that comes with another partition moves there (true) or stays "
    "where it is; true when empty."
)
INDEX_TABLE_OPTIONS: Final = (
    Option(
        INDEX_KEY,
        Text("`BUCKET`, `SIMPLE`, `GLOBAL_SIMPLE`, `BLOOM` or `GLOBAL_BLOOM`"),
        "",
        "The index that finds rows; by default that of the class, else `BUCKET`.",
    ),
    Option(CLASS_KEY, Text("class name of Hudi"), "", "Another name for the index type."),
    Option(
        ENGINE_KEY, Text("`SIMPLE`"), "", "The kind of bucket index: a fixed number of buckets."
    ),
    Option(BLOOM_MOVES_KEY, Boolean(), "", _MOVES),
    Option(SIMPLE_MOVES_KEY, Boolean(), "", _MOVES),
)
MOVES_DEFAULT: Final = "true"

_CLASSES: Final = {
    "HoodieSimpleBucketIndex": "BUCKET",
    "HoodieSparkConsistentBucketIndex": "CONSISTENT_HASHING",
    "HoodieSimpleIndex": "SIMPLE",
    "HoodieGlobalSimpleIndex": "GLOBAL_SIMPLE",
    "HoodieBloomIndex": "BLOOM",
    "HoodieGlobalBloomIndex": "GLOBAL_BLOOM",
    "SparkHoodieHBaseIndex": "HBASE",
    "HoodieInMemoryHashIndex": "INMEMORY",
    "FlinkInMemoryStateIndex": "FLINK_STATE",
    "SparkMetadataTableRecordIndex": "RECORD_INDEX",
    "SparkMetadataTableGlobalRecordLevelIndex": "GLOBAL_RECORD_LEVEL_INDEX",
    "SparkMetadataTableRecordLevelIndex": "RECORD_LEVEL_INDEX",
}
"""What users name instead of a type; never loaded."""
_IN_METADATA: Final = "it lives in the metadata table, which Sluice does not maintain"
_REFUSED: Final = {
    "RECORD_INDEX": _IN_METADATA,
    "GLOBAL_RECORD_LEVEL_INDEX": _IN_METADATA,
    "RECORD_LEVEL_INDEX": _IN_METADATA,
    "HBASE": "it lives in an HBase table that every writer would have to reach",
    "INMEMORY": "it lives in the memory of one process, and is gone with it",
    "FLINK_STATE": "it is in the state of a Flink job, which no other process can read",
    "CONSISTENT_HASHING": "its hashing metadata is not written; take BUCKET, or an index that "
    "looks up keys",
}


def explain_unsupported_index(name: str) -> str | None:
    """Return why Sluice does not write by the index of this name, or None for a supported one."""
    spelled = _normalize_name(name)
    if spelled in IndexKind.__members__:
        return None
    supported = ", ".join(IndexKind)
    reason = _REFUSED.get(spelled, "it is not known")
    return f"the index {name} is not supported: {reason}; Sluice writes by {supported}"


def index_options(values: Mapping[str, str]) -> dict[str, str]:
    """Return `INDEX_OPTIONS` as a table stores them, with defaults filled in. Raises
    InvalidInput.
    """
    kind = _parse_index_kind(values)
    stored = {INDEX_KEY: kind.value}
    engine = values[ENGINE_KEY].upper()
    if engine and kind.looks_up:
        raise InvalidInput("only the bucket index has an engine", key=ENGINE_KEY, index=kind.value)
    if engine not in ("", "SIMPLE"):
        raise InvalidInput(explain_unsupported_index(engine) or "unknown engine", key=ENGINE_KEY)
    for key in (BLOOM_MOVES_KEY, SIMPLE_MOVES_KEY):
        if values[key] and not (kind.is_global and kind.moves_key == key):
            raise InvalidInput("the option is of another index", key=key, index=kind.value)
    if kind.is_global:
        moves = {kind.moves_key: values[kind.moves_key] or MOVES_DEFAULT}
        stored[kind.moves_key] = str(boolean(moves, kind.moves_key)).lower()
    return stored


def find_index(properties: Mapping[str, str]) -> IndexKind | None:
    """Return the index by which rows are placed, or None when the table names one that Sluice does
    not write by.
    """
    spelled = _normalize_name(properties.get(INDEX_KEY) or IndexKind.BUCKET)
    return IndexKind(spelled) if spelled in IndexKind.__members__ else None


def moves_rows(properties: Mapping[str, str]) -> bool:
    """Return True if, under a global index, a row that arrives with another partition moves
    there.
    """
    kind = find_index(properties)
    return bool(kind and kind.is_global and properties.get(kind.moves_key, MOVES_DEFAULT) == "true")


def _parse_index_kind(values: Mapping[str, str]) -> IndexKind:
    by_type, by_class = values[INDEX_KEY], values[CLASS_KEY]
    if by_class:
        named = _CLASSES.get(by_class.rpartition(".")[2])
        if named is None:
            raise InvalidInput("unknown class of index", key=CLASS_KEY, value=by_class)
        if by_type and _normalize_name(by_type) != named:
            raise InvalidInput("index type and class differ", type=by_type, index_class=by_class)
        by_type = named
    name = by_type or IndexKind.BUCKET
    if (reason := explain_unsupported_index(name)) is not None:
        raise InvalidInput(reason, key=INDEX_KEY)
    return IndexKind(_normalize_name(name))


def _normalize_name(name: str) -> str:
    upper = name.upper()
    return "BUCKET" if upper == "SIMPLE_BUCKET" else upper
