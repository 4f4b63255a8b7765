"""A line of an operation's log, as it is read from a file of the run directory and stored.

Processes write there as everywhere else (`workers.log_lines`), or whatever they like. What is
stored is one line for each event, whatever text it carries (threat T17), without secrets.
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
"""In one report."""
OUTPUT: Final = "output"
"""The source of what a process wrote beside its logs, such as the last words of a native crash."""
OWN: Final = "log"
"""The source of what is said about the log itself."""
BEHIND_BYTES_MAX: Final = 1024 * 1024
"""A file that grew by more since it was last read is not read whole."""

_LEVELS = logging.getLevelNamesMapping()
_KEPT_BYTES = 256 * 1024
_CHUNK_BYTES = 64 * 1024
_LINE = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00) "
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) (\S{1,200}) (.*)",
    re.DOTALL,
)
_IDS = re.compile(r"(?: request_id=[\w.:-]{1,64})? operation_id=[0-9a-f-]{36}(?=\Z|\\x0a)")
"""They say what everybody knows who reads this operation's log."""
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
    """One event, harmless and without secrets."""

    number: int
    """Where it begins in its file, in bytes."""
    at_ms: int
    level: int
    """As `logging` numbers them."""
    source: str
    message: str

    def to_message(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "number": self.number,
            "at_ms": self.at_ms,
            "level": self.level,
            "source": self.source,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class Piece:
    """What was read of a file at once."""

    lines: list[LogLine]
    position: int
    """Where the next piece begins, in bytes."""


def level_of(number: int) -> int:
    """The named level at or below a number."""
    return max(logging.DEBUG, min(logging.CRITICAL, number // 10 * 10))


def one_line(text: str) -> str:
    """Control characters and marks of direction spelled out; half of a pair is replaced."""
    return text.encode("utf-8", "replace").decode("utf-8").translate(_ESCAPED)


def shortened(message: str) -> str:
    """At most `MESSAGE_CHARS_MAX` characters, and how many more there were."""
    more = len(message) - MESSAGE_CHARS_MAX
    return message if more <= 0 else f"{message[:MESSAGE_CHARS_MAX]}… ({more} characters more)"


def read_lines(
    path: Path, position: int, *, now_ms: int, masker: Masker, is_over: bool = False
) -> Piece:
    """The next lines behind `position`, `LINES_MAX` at most; none where there is no such file.

    A line without its end is left for later, unless the file `is_over`. Raises OSError.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return Piece([], position)
    if size - position > BEHIND_BYTES_MAX:
        return _passed_over(position, size - _KEPT_BYTES, now_ms)
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
            lines.append(_line(position, text, now_ms, masker))
        position += len(raw)
    return Piece(lines, position)


def _passed_over(position: int, kept_from: int, now_ms: int) -> Piece:
    """Said in the place of what is left out."""
    left_out = kept_from - position
    message = f"{left_out} bytes were left out here: they came faster than they were stored"
    return Piece([LogLine(position, now_ms, logging.WARNING, OWN, message)], kept_from)


def _line(number: int, text: str, now_ms: int, masker: Masker) -> LogLine:
    at_ms, level, source, message = _event(text) or (now_ms, logging.INFO, OUTPUT, text)
    return LogLine(
        number=number,
        at_ms=at_ms,
        level=level,
        source=one_line(source)[:200],
        message=shortened(one_line(masker.masked(message))),
    )


def _event(text: str) -> tuple[int, int, str, str] | None:
    """Time, level, logger and message of a line of `workers.log_lines`; None for another."""
    if text.startswith("{"):
        return _json_event(text)
    parts = _LINE.fullmatch(text)
    if parts is None:
        return None
    return _at_ms(parts[1]), _LEVELS[parts[2]], parts[3], _IDS.sub("", parts[4], count=1)


def _json_event(text: str) -> tuple[int, int, str, str] | None:
    try:
        event = json.loads(text)
        at_ms, level = _at_ms(event["at"]), _LEVELS[event["level"].upper()]
        message = "\n".join(str(event[name]) for name in ("message", "error") if name in event)
        return at_ms, level, str(event["logger"]), message
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _at_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)
