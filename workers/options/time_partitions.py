"""The conversion of a column to a partition path under Hudi's timestamp-based key generator, by the
table's properties.

`hoodie.keygen.timebased.*`, or the older `hoodie.deltastreamer.keygen.timebased.*`. A setting that
depends on the writing process, such as its own time zone, is rejected: two engines would write two
paths.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from workers.errors import InvalidInput
from workers.options.java_dates import Token, read_pattern, written_pattern
from workers.options.option import Option, Text
from workers.options.option_values import choice, parse_list

PREFIX: Final = "hoodie.keygen.timebased."
_OLDER_PREFIX: Final = "hoodie.deltastreamer.keygen.timebased."
_TYPE, _UNIT = "timestamp.type", "timestamp.scalar.time.unit"
_INPUT, _OUTPUT = "input.dateformat", "output.dateformat"
_DELIMITER: Final = "input.dateformat.list.delimiter.regex"
_ZONE, _INPUT_ZONE, _OUTPUT_ZONE = "timezone", "input.timezone", "output.timezone"
_PARTS: Final = (
    _TYPE,
    _UNIT,
    _INPUT,
    _DELIMITER,
    _INPUT_ZONE,
    _OUTPUT,
    _OUTPUT_ZONE,
    _ZONE,
)
TIME_KEYS: Final = (
    *(PREFIX + part for part in _PARTS),
    *(_OLDER_PREFIX + part for part in _PARTS),
)
_MEANINGS: Final = {
    _TYPE: ("`UNIX_TIMESTAMP`, `EPOCHMILLISECONDS`, `DATE_STRING`, ...", "What the column holds."),
    _UNIT: ("`SECONDS`, `DAYS`, ...", "What its numbers count, for the type `SCALAR`."),
    _INPUT: ("patterns of Java, split by the delimiter", "How its texts are written."),
    _DELIMITER: ("one character", "Splits the patterns of texts; a comma when empty."),
    _INPUT_ZONE: ("zone", "Of texts that name none."),
    _OUTPUT: ("pattern of Java", "How the partition path is written; needed."),
    _OUTPUT_ZONE: ("zone", "The zone of the partition path."),
    _ZONE: ("zone", "Both zones at once."),
}
TIME_OPTIONS: Final = (
    *(Option(PREFIX + part, Text(shape), "", text) for part, (shape, text) in _MEANINGS.items()),
    *(
        Option(_OLDER_PREFIX + part, Text(shape), "", f"Hudi's older name of `{PREFIX}{part}`.")
        for part, (shape, _) in _MEANINGS.items()
    ),
)
_PARSER_KEYS: Final = (
    "hoodie.keygen.datetime.parser.class",
    "hoodie.deltastreamer.keygen.datetime.parser.class",
)
_OFFSET: Final = re.compile(r"GMT([+-])([0-9]{1,2})(?::?([0-5][0-9]))?")
_PLAIN_TEXT: Final = re.compile(r"\\?([^\w\\.^$*+?{}\[\]()]|\|)")
"""A delimiter that is plain text and not a pattern: a single character, escaped or not."""
_UTC: Final = frozenset({"UTC", "GMT", "Z", "UCT", "Etc/UTC", "Etc/GMT", "Universal", "Zulu"})


class TimestampType(StrEnum):
    """The content of a partition column, under the names of Hudi's timestamp-based key
    generator.
    """

    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"
    EPOCHMILLISECONDS = "EPOCHMILLISECONDS"
    EPOCHMICROSECONDS = "EPOCHMICROSECONDS"
    SCALAR = "SCALAR"
    DATE_STRING = "DATE_STRING"
    MIXED = "MIXED"

    @property
    def is_text(self) -> bool:
        """True if its values are texts that patterns parse."""
        return self in (TimestampType.DATE_STRING, TimestampType.MIXED)


class TimeUnit(StrEnum):
    """The unit of a column's numbers, for the type `SCALAR`."""

    NANOSECONDS = "NANOSECONDS"
    MICROSECONDS = "MICROSECONDS"
    MILLISECONDS = "MILLISECONDS"
    SECONDS = "SECONDS"
    MINUTES = "MINUTES"
    HOURS = "HOURS"
    DAYS = "DAYS"

    @property
    def to_ms(self) -> tuple[int, int]:
        """The factor and the divisor."""
        return _TO_MS[self]


_TO_MS: Final = {
    TimeUnit.NANOSECONDS: (1, 1_000_000),
    TimeUnit.MICROSECONDS: (1, 1_000),
    TimeUnit.MILLISECONDS: (1, 1),
    TimeUnit.SECONDS: (1_000, 1),
    TimeUnit.MINUTES: (60_000, 1),
    TimeUnit.HOURS: (3_600_000, 1),
    TimeUnit.DAYS: (86_400_000, 1),
}
_UNITS: Final = {
    TimestampType.UNIX_TIMESTAMP: TimeUnit.SECONDS,
    TimestampType.EPOCHMILLISECONDS: TimeUnit.MILLISECONDS,
    TimestampType.EPOCHMICROSECONDS: TimeUnit.MICROSECONDS,
}


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone: a fixed offset in milliseconds, or a name."""

    offset_ms: int = 0
    name: str = ""
    """The name of a zone with a changing offset; empty for a fixed one."""


@dataclass(frozen=True, slots=True)
class TimeRule:
    """The conversion of a value to a time, and of a time to a partition path."""

    kind: TimestampType
    unit: TimeUnit
    """Of numbers."""
    inputs: tuple[tuple[Token, ...], ...]
    """Patterns of texts; the first that fits reads."""
    output: tuple[Token, ...]
    input_zone: Zone | None
    """None if each text contains its own."""
    output_zone: Zone | None
    """None for the zone in the text."""


def time_rule(properties: Mapping[str, str]) -> TimeRule:
    """Parse the rule for partition paths of times. Raises InvalidInput, with the name, for a
    missing or unsupported property.
    """
    parts = _collect_parts(properties)
    parser = next((properties[key] for key in _PARSER_KEYS if properties.get(key)), "")
    if parser and parser.rpartition(".")[2].removesuffix("Impl") != "HoodieDateTimeParser":
        raise InvalidInput("only Hudi's own parser of dates is supported", parser=parser)
    kind = choice({PREFIX + _TYPE: parts.get(_TYPE, "")}, PREFIX + _TYPE, TimestampType)
    output = written_pattern(_require_part(parts, _OUTPUT))
    inputs = _inputs(parts) if kind.is_text else ()
    input_zone = _zone(parts.get(_ZONE, parts.get(_INPUT_ZONE, "")))
    output_zone = _zone(parts.get(_ZONE, parts.get(_OUTPUT_ZONE, "")))
    have_zones = all(any(token.letter == "Z" for token in tokens) for tokens in inputs)
    if kind.is_text and input_zone is None and not have_zones:
        raise _zone_missing(_INPUT_ZONE)
    if not kind.is_text and output_zone is None:
        raise _zone_missing(_OUTPUT_ZONE)
    return TimeRule(kind, _unit(kind, parts), inputs, output, input_zone, output_zone or input_zone)


def _collect_parts(properties: Mapping[str, str]) -> dict[str, str]:
    """Collect the properties by the part behind either prefix; the newer prefix wins."""
    return {
        part: properties[prefix + part]
        for prefix in (_OLDER_PREFIX, PREFIX)
        for part in _PARTS
        if prefix + part in properties
    }


def _require_part(parts: Mapping[str, str], part: str) -> str:
    if not parts.get(part):
        raise InvalidInput("the timestamp-based key generator lacks an option", key=PREFIX + part)
    return parts[part]


def _inputs(parts: Mapping[str, str]) -> tuple[tuple[Token, ...], ...]:
    delimiter = parts.get(_DELIMITER, "").strip() or ","
    plain = _PLAIN_TEXT.fullmatch(delimiter)
    if plain is None:
        raise InvalidInput(
            "a delimiter of date patterns is one character",
            key=PREFIX + _DELIMITER,
            given=delimiter,
        )
    patterns = [piece.strip() for piece in _require_part(parts, _INPUT).split(plain[1])]
    return tuple(read_pattern(pattern) for pattern in patterns if pattern)


def _unit(kind: TimestampType, parts: Mapping[str, str]) -> TimeUnit:
    if kind is not TimestampType.SCALAR:
        return _UNITS.get(kind, TimeUnit.MILLISECONDS)
    named = parts.get(_UNIT) or TimeUnit.SECONDS.value
    return choice({PREFIX + _UNIT: named}, PREFIX + _UNIT, TimeUnit)


def _zone(name: str) -> Zone | None:
    text = name.strip()
    if not text:
        return None
    if text in _UTC:
        return Zone()
    if offset := _OFFSET.fullmatch(text):
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        if minutes > 23 * 60 + 59:
            raise InvalidInput("unknown time zone", zone=name)
        return Zone((1 if offset[1] == "+" else -1) * minutes * 60_000)
    if text not in available_timezones():  # Java takes what it does not know for GMT.
        raise InvalidInput("unknown time zone", zone=name)
    ZoneInfo(text)
    return Zone(name=text)


def _zone_missing(part: str) -> InvalidInput:
    return InvalidInput(
        "without a time zone the partition depends on where it is written; give it",
        key=f"{PREFIX}{_ZONE}, or {PREFIX}{part}",
    )


def parse_stored_time_rule(properties: Mapping[str, str]) -> TimeRule | None:
    """Return the rule of a table that exists; None if it has none, or an unsupported one: reading
    needs none.
    """
    try:
        return time_rule(properties) if has_times(properties) else None
    except InvalidInput:
        return None


def has_times(properties: Mapping[str, str]) -> bool:
    """Return True if these properties configure a timestamp-based key generator."""
    return any(properties.get(key) for key in TIME_KEYS)


class FieldKind(StrEnum):
    """The treatment of a partition field by a custom key generator."""

    SIMPLE = "SIMPLE"
    TIMESTAMP = "TIMESTAMP"


def parse_typed_fields(text: str) -> tuple[tuple[str, FieldKind | None], ...]:
    """Parse `a:SIMPLE,b:TIMESTAMP`, as custom key generators take it, to fields and their kinds;
    None for an unknown kind.
    """
    fields = (piece.partition(":") for piece in parse_list(text))
    return tuple((name, _KINDS.get(kind.upper())) for name, _, kind in fields)


_KINDS: Final = {kind.value: kind for kind in FieldKind}
