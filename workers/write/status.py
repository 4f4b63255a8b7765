"""The report of one task about one file that it wrote; sent from executors as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from workers.errors import MalformedTable
from workers.timeline.metadata import WriteStat

OrderingText = str | int | float


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """One written file, as the commit's metadata and the driver need it."""

    stat: WriteStat
    rows: int
    """Rows of the batch that went into this file, after equal keys were merged."""
    max_ordering: OrderingText | None = None
    empty_columns: tuple[str, ...] = ()
    """Columns of the write for which none of these rows has a value."""
    moved: int = 0
    """Rows that came from another partition with it."""
    has_low_ordering: bool = False
    """Some row has no ordering value, or one that is not above the 0 that other engines take none
    for.
    """
    may_exhaust_lists: bool = False
    """They remove something from top-N lists, maybe more than the slack of some."""

    def to_json(self) -> str:
        """Text for `from_json` in another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WriteStatus:
        """Parse what `to_json` wrote. Raises MalformedTable."""
        try:
            body = json.loads(text)
            empty = tuple(body.pop("empty_columns"))
            return cls(WriteStat(**body.pop("stat")), **body, empty_columns=empty)
        except (ValueError, TypeError, KeyError) as error:
            raise MalformedTable("a task's write status is damaged", text=text[:200]) from error


@dataclass(frozen=True, slots=True)
class DeadLetterFile:
    """The report of one task about its dead letters."""

    name: str
    rows: int

    def to_json(self) -> str:
        """Text for `from_json` in another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> DeadLetterFile:
        """Parse what `to_json` wrote. Raises MalformedTable."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise MalformedTable("a task's dead letters are damaged", text=text[:200]) from error


@dataclass(frozen=True, slots=True)
class TaskIds:
    """Which attempt of which task writes; makes file names of attempts differ."""

    partition: int = 0
    stage: int = 0
    attempt: int = 0
    file_version: int = 1
    """Rises with each log file that one attempt adds to a file group: the later wins."""
