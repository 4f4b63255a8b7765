"""Selection of dead letters: some by their coordinates, all of one cause, or all."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from workers.errors import InvalidInput
from workers.sink.dead_letters import READ_SCHEMA, read_dead_letter_file
from workers.sink.replays import DeadLetterId
from workers.sink.tables import OFFSET, PARTITION, TOPIC, TOPIC_ID
from workers.write.dead_letters import ERROR_COLUMN

LETTERS_MAX = 10_000
"""Most dead letters of one replay. Another replay sends the rest."""
NAMED_MAX = 1_000
_PLACE = re.compile(r"([0-9]{1,9}):([0-9]{1,18})\Z")


@dataclass(frozen=True, slots=True)
class DeadLetterSelection:
    """Conditions on dead letters. An empty condition matches all."""

    places: frozenset[tuple[int, int]] = frozenset()
    """(partition, offset)."""
    cause: str = ""

    def has(self, letter: DeadLetterId, cause: str | None) -> bool:
        """Check whether the selection has this dead letter, which was rejected for `cause`."""
        is_named = not self.places or (letter.partition, letter.offset) in self.places
        return is_named and (not self.cause or cause == self.cause)


@dataclass(frozen=True, slots=True)
class SelectedDeadLetters:
    """Dead letters that a replay is to send, and how many it skips."""

    letters: pa.Table
    """At most LETTERS_MAX, oldest first, in the columns of READ_SCHEMA."""
    already: int
    """Number of selected dead letters that were sent before."""


def parse_selection(*, places: Iterable[str] = (), cause: str = "") -> DeadLetterSelection:
    """Parse a selection. Places have the form `partition:offset`. Raises InvalidInput."""
    texts = list(places)
    if len(texts) > NAMED_MAX:
        raise InvalidInput("too many dead letters are selected", most=NAMED_MAX)
    return DeadLetterSelection(frozenset(map(_parse_place, texts)), cause)


def select_dead_letters(
    directory: str,
    names: Iterable[str],
    choice: DeadLetterSelection,
    sent: Collection[DeadLetterId],
) -> SelectedDeadLetters:
    """Return the selected dead letters in the sink's files `names`, oldest first, without those in
    `sent`.

    Raises MalformedTable.
    """
    parts: list[pa.Table] = []
    seen: set[DeadLetterId] = set()
    already = 0
    for name in names:
        letters = read_dead_letter_file(directory, name)
        chosen: list[int] = []
        for at, (letter, cause) in enumerate(_iterate_ids(letters)):
            if not choice.has(letter, cause):
                continue
            if letter in sent:
                already += 1
            elif letter not in seen and len(seen) < LETTERS_MAX:
                # After a restore of the table, a record may be read and rejected again.
                seen.add(letter)
                chosen.append(at)
        parts.append(letters.take(pa.array(chosen, pa.int64())))
    return SelectedDeadLetters(pa.concat_tables([READ_SCHEMA.empty_table(), *parts]), already)


def to_dead_letter_id(row: dict[str, Any]) -> DeadLetterId:
    """Return the id of the dead letter in `row`, which has the columns of READ_SCHEMA."""
    return DeadLetterId(row[TOPIC], row[PARTITION], row[OFFSET], row[TOPIC_ID] or "")


def _iterate_ids(letters: pa.Table) -> Iterator[tuple[DeadLetterId, str | None]]:
    id_columns = letters.select([TOPIC, PARTITION, OFFSET, TOPIC_ID, ERROR_COLUMN])
    for row in id_columns.to_pylist():
        yield to_dead_letter_id(row), row[ERROR_COLUMN]


def _parse_place(text: str) -> tuple[int, int]:
    matched = _PLACE.match(text)
    if matched is None:
        raise InvalidInput("a dead letter must be written partition:offset", given=text[:60])
    return int(matched[1]), int(matched[2])
