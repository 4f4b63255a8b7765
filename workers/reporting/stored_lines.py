"""Lines of an operation's log, read from a file in the run directory for storage.

Processes write lines of `workers.log_lines` or any other output. One line is stored for each event,
with any text (threat T17) but without secrets.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from workers.masking import Masker

MESSAGE_CHARS_MAX: Final = 4_000
LINES_MAX: Final = 90
"""Most lines of one report."""
OUTPUT: Final = "output"
"""Source of output that is not a log line, such as the message of a native crash."""
OWN: Final = "log"
"""Source of lines about the log itself."""
BEHIND_BYTES_MAX: Final = 1024 * 1024
"""A file that grew by more since the last read is not read completely."""

_LEVELS = logging.getLevelNamesMapping()
_KEPT_BYTES = 256 * 1024
_CHUNK_BYTES = 64 * 1024
_LINE = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00) "
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) (\S{1,200}) (.*)",
    re.DOTALL,
)
_IDS = re.compile(r"(?: request_id=[\w.:-]{1,64})? operation_id=[0-9a-f-]{36}(?=\Z|\\x0a)")
"""Ids that are the same for all lines of an operation's log."""
_NAMED_BREAKS = {10: "\\n", 13: "\\r", 9: "\\t"}
_ESCAPED = {
    **{code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160))},
    **{
        code: f"\\u{code:04x}"
        for code in (0x61C, 0x200E, 0x200F, 0x2028, 0x2029, 0xFEFF, *range(0x202A, 0x202F))
    },
    **{code: f"\\u{code:04x}" for code in range(0x2066, 0x206A)},
    **_NAMED_BREAKS,
}


@dataclass(frozen=True, slots=True)
class LogLine:
    """One event, with escaped text and without secrets."""

    number: int
    """Offset of its begin in the file, in bytes."""
    at_ms: int
    level: int
    """Number of the level, as in `logging`."""
    source: str
    message: str

    def to_message(self) -> dict[str, Any]:
        """Return the line as a JSON object."""
        return {
            "number": self.number,
            "at_ms": self.at_ms,
            "level": self.level,
            "source": self.source,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Lines that were read from a file at once."""

    lines: list[LogLine]
    position: int
    """Offset of the next chunk, in bytes."""


def round_level(number: int) -> int:
    """Return the named level at or below a number."""
    return max(logging.DEBUG, min(logging.CRITICAL, number // 10 * 10))


def escape_line(text: str) -> str:
    """Escape control characters and direction marks, and replace lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8").translate(_ESCAPED)


def shorten(message: str) -> str:
    """Shorten the message to `MESSAGE_CHARS_MAX` characters, with the number of further ones."""
    more = len(message) - MESSAGE_CHARS_MAX
    return message if more <= 0 else f"{message[:MESSAGE_CHARS_MAX]}… ({more} characters more)"


def read_lines(
    path: Path, position: int, *, now_ms: int, masker: Masker, is_over: bool = False
) -> LogChunk:
    """Read at most `LINES_MAX` lines after `position`. Return no lines if the file is missing.

    An incomplete line is left for the next read, unless the file `is_over`. Raises OSError.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return LogChunk([], position)
    if size - position > BEHIND_BYTES_MAX:
        return _skip_lines(position, size - _KEPT_BYTES, now_ms)
    with path.open("rb") as log:
        log.seek(position)
        chunk = log.read(_CHUNK_BYTES)
    raw_lines = chunk.splitlines(keepends=True)
    if raw_lines and not raw_lines[-1].endswith(b"\n"):
        is_end = len(chunk) < _CHUNK_BYTES
        is_all_there_is = is_over if is_end else len(raw_lines) == 1
        if not is_all_there_is:
            raw_lines.pop()
    lines = []
    for raw in raw_lines[:LINES_MAX]:
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        if text:
            lines.append(_build_line(position, text, now_ms, masker))
        position += len(raw)
    return LogChunk(lines, position)


def _skip_lines(position: int, kept_from: int, now_ms: int) -> LogChunk:
    """Return a line that replaces the skipped bytes."""
    left_out = kept_from - position
    message = f"{left_out} bytes were left out here: they came faster than they were stored"
    return LogChunk([LogLine(position, now_ms, logging.WARNING, OWN, message)], kept_from)


def _build_line(number: int, text: str, now_ms: int, masker: Masker) -> LogLine:
    at_ms, level, source, message = _parse_event(text) or (now_ms, logging.INFO, OUTPUT, text)
    return LogLine(
        number=number,
        at_ms=at_ms,
        level=level,
        source=escape_line(source)[:200],
        message=shorten(escape_line(masker.mask(message))),
    )


def _parse_event(text: str) -> tuple[int, int, str, str] | None:
    """Parse time, level, logger and message of a line of `workers.log_lines`. Return None for other
    lines.
    """
    if text.startswith("{"):
        return _parse_json_event(text)
    parts = _LINE.fullmatch(text)
    if parts is None:
        return None
    return _parse_time_ms(parts[1]), _LEVELS[parts[2]], parts[3], _IDS.sub("", parts[4], count=1)


def _parse_json_event(text: str) -> tuple[int, int, str, str] | None:
    try:
        event = json.loads(text)
        at_ms, level = _parse_time_ms(event["at"]), _LEVELS[event["level"].upper()]
        message = "\n".join(str(event[name]) for name in ("message", "error") if name in event)
        return at_ms, level, str(event["logger"]), message
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _parse_time_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)
