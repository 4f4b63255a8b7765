"""What became of letters that were sent again, in an append-only table: each is a row under the key
of where it stands in the topic now, or is a letter once more. Asked of storage, by key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from workers.files.meta_columns import RECORD_KEY
from workers.files.names import parse_bucket_number
from workers.read.file_slice import read_slice
from workers.sink.batch import Source
from workers.sink.dead_letter_selection import parse_selection, to_dead_letter_id
from workers.sink.dead_letters import list_dead_letter_files, read_dead_letter_file
from workers.sink.replays import Replay, ReplayedOffsets
from workers.sink.sink_commits import ID_KEY
from workers.sink.tables import APPEND_KEY, NAMED_KEY, append_bucket, append_key_prefix
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.table.view import FileSystemView

LETTERS_LOOKED_UP_MAX = 100
BYTES_READ_MAX = 64 * 1024 * 1024
"""A page asks this: of many letters some are looked up, and not in file groups beyond this."""


@dataclass(frozen=True, slots=True)
class _Sent:
    partition: int
    was: int
    """The letter's offset."""
    now: int
    key: str
    bucket: int


@dataclass(frozen=True, slots=True)
class ReplayedRows:
    rows: int
    letters: int
    """That do not fit still."""
    unread: int
    """In file groups that are too large for a page, or left out by their number."""
    missing: tuple[str, ...]
    """As sentences."""


def are_keys_known(table: Table) -> bool:
    """Whether where a record came from is its key, so that it needs no decoding."""
    return table.config.record_key in (APPEND_KEY, NAMED_KEY)


def replayed_rows(
    table: Table, sink_id: str, directory: str, replays: Iterable[Replay]
) -> ReplayedRows:
    """The rows that a replay made, of an append-only table, and of replays that have landed. Raises
    LakehouseError.
    """
    sent = [one for replay in replays for one in _sent(table, replay)]
    chosen = sent
    if len(sent) > LETTERS_LOOKED_UP_MAX:
        step = (len(sent) - 1) / (LETTERS_LOOKED_UP_MAX - 1)
        chosen = [sent[round(at * step)] for at in range(LETTERS_LOOKED_UP_MAX)]
    by_bucket: dict[int, list[_Sent]] = defaultdict(list)
    for letter in chosen:
        by_bucket[letter.bucket].append(letter)
    keys_by_bucket = _keys_with_rows(table, by_bucket)
    looked_up = [one for one in chosen if one.bucket in keys_by_bucket]
    absent = [one for one in looked_up if one.key not in keys_by_bucket[one.bucket]]
    again = _letters_again(table, sink_id, directory, absent)
    missing = [one for one in absent if (one.partition, one.now) not in again]
    return ReplayedRows(
        rows=len(looked_up) - len(absent),
        letters=len(absent) - len(missing),
        unread=len(sent) - len(looked_up),
        missing=tuple(
            f"letter {one.partition}:{one.was}, sent again to {one.partition}:{one.now}, is no row "
            "under its key, and no letter"
            for one in missing
        ),
    )


def _sent(table: Table, replay: Replay) -> list[_Sent]:
    landed, config = replay.landed, table.config
    assert landed is not None, replay
    topic = replay.letters[0].topic
    return [
        _Sent(
            partition,
            was,
            now,
            append_key_prefix(_source(topic, partition, landed), config.record_key) + str(now),
            append_bucket(topic, partition, config.buckets),
        )
        for partition, was, now in landed.offsets
    ]


def _source(topic: str, partition: int, landed: ReplayedOffsets) -> Source:
    return Source(topic, partition, topic_id=landed.topic_id, cluster_id=landed.cluster_id)


def _keys_with_rows(table: Table, by_bucket: Mapping[int, list[_Sent]]) -> dict[int, set[str]]:
    """Bucket -> those of its keys that have a row; without the buckets that were not read."""
    schema = load_schema(table)
    if schema is None:
        return {bucket: set() for bucket in by_bucket}
    live_slices = FileSystemView.load(table).slices
    slices = [one for one in live_slices if parse_bucket_number(one.file_id) in by_bucket]
    paths = [path for one in slices for path in one.files]
    infos = table.storage.at_once(table.storage.info, paths)
    sizes = {info.path: info.size for info in infos if info is not None}
    keys_by_bucket: dict[int, set[str]] = {}
    bytes_left = BYTES_READ_MAX
    for bucket, wanted in sorted(by_bucket.items()):
        own = [one for one in slices if parse_bucket_number(one.file_id) == bucket]
        size = sum(sizes.get(path, 0) for one in own for path in one.files)
        if size > bytes_left:
            continue
        bytes_left -= size
        keys = pa.array([one.key for one in wanted])
        keys_by_bucket[bucket] = set()
        for file_slice in own:
            rows = read_slice(table.storage, table.config, schema, file_slice, columns=[RECORD_KEY])
            held = rows.column(RECORD_KEY)
            met = held.filter(pc.is_in(held, value_set=keys))
            keys_by_bucket[bucket] |= {str(key) for key in met.to_pylist()}
    return keys_by_bucket


def _letters_again(
    table: Table, sink_id: str, directory: str, absent: list[_Sent]
) -> set[tuple[int, int]]:
    """Which of them, by partition and offset of now, were left out once more."""
    if not absent:
        return set()
    choice = parse_selection(places=[f"{one.partition}:{one.now}" for one in absent])
    again = set()
    for name in list_dead_letter_files(table, sink_key=ID_KEY, sink_id=sink_id):
        for row in read_dead_letter_file(directory, name).to_pylist():
            letter = to_dead_letter_id(row)
            if choice.has(letter, None):
                again.add((letter.partition, letter.offset))
    return again
