"""A marker: the name that is durable before its data file is opened (requirements 1.2 and 4).

Pure values and their grammar, no I/O. Whatever a marker names may be deleted by a rollback, so
nothing outside the grammar ever becomes a `Marker`: no way out of the table, nothing below
`.hoodie`, no character that means something to a shell, a glob, a URL or a log.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.locations import bucket_place, is_bucket_location
from workers.table_layout import HOODIE, MARKERS

MARKERS_TYPE_FILE = "MARKERS.type"
MARKERS_TYPE = "TIMELINE_SERVER_BASED"

_EXTENSION = ".marker."
_NAME_BYTES_MAX = 2_000
_PART_BYTES_MAX = 255

# Control characters, the two Unicode line ends, lone surrogates, and what the security page bans
# from names.
_BANNED = "\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff*'\"%\\\\"
_DOTTED = rf"\.|\.\.|{re.escape(HOODIE)}"
_PART = rf"(?!(?:{_DOTTED})(?:/|\Z))[^/{_BANNED}]+"
# What Hive's encoding of partition values may produce; neither %00 nor %2E, and no lower case.
_ESCAPED = "%(?:0[1-9A-F]|1[0-9A-F]|2[2357AF]|3[ADF]|5[B-E]|7[BF])"
# Possessive, so that runs of harmless characters cost one step and nothing is tried twice.
_PARTITION_PART = rf"(?!(?:{_DOTTED})(?:/|\Z))(?:[^/{_BANNED}]++|{_ESCAPED})++"
_NAME = re.compile(
    rf"(?:(?P<partition>{_PARTITION_PART}(?:/{_PARTITION_PART})*)/)?"
    rf"(?P<file>(?!(?:{_DOTTED})\.marker\.)[^/{_BANNED}]+)\.marker\.(?P<io>CREATE|MERGE|APPEND)\Z"
)
_INSTANT = re.compile(r"[0-9]{17}\Z|[0-9]{14}\Z")
_DIRECTORY = re.compile(
    rf"(?P<location>(?:s3://[a-z0-9.-]{{3,63}})?(?:/{_PART})+)/{re.escape(MARKERS.path)}"
    r"/(?P<instant>[0-9]+)\Z"
)


class IOType(StrEnum):
    """The kind of write to the data file. Log files of table version 8 and above are CREATE as
    well.
    """

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


@dataclass(frozen=True, slots=True, order=True)
class Marker:
    """One data file that an instant may have written. Raises InvalidInput outside the grammar."""

    partition: str
    data_file_name: str
    io_type: IOType

    def __post_init__(self) -> None:
        match = _match_name(self.name)
        if match["file"] != self.data_file_name or (match["partition"] or "") != self.partition:
            raise InvalidInput("marker's parts do not make its name", marker=ascii(self.name))

    @property
    def name(self) -> str:
        """The stored and sent form: `<partition>/<data file>.marker.<CREATE, MERGE or APPEND>`."""
        return f"{self.data_path}{_EXTENSION}{self.io_type}"

    @property
    def data_path(self) -> str:
        """The data file, relative to the table."""
        if not self.partition:
            return self.data_file_name
        return f"{self.partition}/{self.data_file_name}"


def parse_marker(text: str) -> Marker:
    """Parse the name of a marker. Raises InvalidInput when it breaks the grammar."""
    match = _match_name(text)
    return Marker(match["partition"] or "", match["file"], IOType(match["io"]))


def validate_marker_name(text: str) -> str:
    """Return `text` if it names a marker, without an object per marker. Raises InvalidInput."""
    _match_name(text)
    return text


def is_marker_name(text: str) -> bool:
    """Return True if `parse_marker` would not raise."""
    return _match(text) is not None


def markers_directory(instant: InstantTime) -> str:
    """Return the path relative to the table. Raises InvalidInput when `instant` is not an instant
    time.
    """
    return MARKERS.file(validate_instant(instant))


def markers_directory_path(location: str, instant: InstantTime) -> str:
    """Return the absolute directory that Hudi's clients send as `markerdirpath`."""
    return f"{normal_location(location)}/{markers_directory(instant)}"


@lru_cache(maxsize=1_024)
def parse_markers_directory(text: str) -> tuple[str, InstantTime]:
    """Return table location and instant of a `markerdirpath`. Raises InvalidInput outside the
    grammar.
    """
    path = re.sub(r"\Afile:(?://)?(?=/)", "", text)  # Hadoop writes a local path in this way.
    match = _DIRECTORY.match(path) if len(path) <= 2 * _NAME_BYTES_MAX else None
    if match is None:
        raise InvalidInput("not a marker directory of a table", markerdirpath=ascii(text[:200]))
    return match["location"], validate_instant(match["instant"])


def normal_location(location: str) -> str:
    """Return the only spelling of a location, by text alone: a token and a request must name the
    same table.

    Raises InvalidInput for an invalid location of a bucket.
    """
    if is_bucket_location(location):
        return bucket_place(location).location
    return posixpath.normpath(location)


def is_instant(text: str) -> bool:
    """Return True for an instant time of 17 digits (milliseconds) or of 14 (seconds, older
    tables).
    """
    return _INSTANT.match(text) is not None


def validate_instant(text: str) -> InstantTime:
    """Check and return `text`. Raises InvalidInput."""
    if not is_instant(text):
        raise InvalidInput("not an instant time", instant=ascii(text[:40]))
    return text


def _match_name(text: str) -> re.Match[str]:
    match = _match(text)
    if match is None:
        raise InvalidInput("marker name breaks the grammar", marker=ascii(text[:200]))
    return match


def _match(text: str) -> re.Match[str] | None:
    # Hudi cuts at the first ".marker", we at the last: a name where the two differ is invalid.
    match = _NAME.match(text) if text.count(_EXTENSION) == 1 else None
    if match is None:
        return None
    if len(text) <= _PART_BYTES_MAX and text.isascii():
        return match
    return match if _fits(text) else None


def _fits(text: str) -> bool:
    if len(text.encode()) > _NAME_BYTES_MAX:
        return False
    return all(len(part.encode()) <= _PART_BYTES_MAX for part in text.split("/"))
