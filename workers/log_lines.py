"""Lines of logs: one event stays one line, whatever text it carries (threat T17), with its request
and operation.

`SLUICE_LOG_FORMAT=json` makes each line a JSON object of plain ASCII; `text`, the default, is for
people, with every character escaped that would break a line or reverse its text. Secrets that this
process knows, and text that resembles one, become `***` in both.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Final

from workers.errors import InvalidInput
from workers.masking import Masker, secret_values

FORMAT_VARIABLE: Final = "SLUICE_LOG_FORMAT"
LEVEL_VARIABLE: Final = "SLUICE_LOG_LEVEL"
REQUEST_VARIABLE: Final = "SLUICE_REQUEST_ID"
"""By which a process learns for whose request it was started."""
FORMATS: Final = ("text", "json")
CHARS_MAX: Final = 64_000
"""The limit for one text; the begin and the end of a longer one are kept."""

current_request_id: ContextVar[str] = ContextVar("current_request_id", default="")
current_operation_id: ContextVar[str] = ContextVar("current_operation_id", default="")

_ids_of_process = {"request_id": "", "operation_id": ""}
"""For threads of a process that works for one request at a time: they begin with no context."""
_TURNING = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_UNSEEN = (0xAD, 0x200B, 0x200C, 0x200D, 0x2028, 0x2029, *range(0x2060, 0x2066), 0xFEFF)
_SPELT = {code: f"\\x{code:02x}" for code in [*range(32), 127, *range(128, 160)]}
_SPELT |= {code: f"\\u{code:04x}" for code in (*_TURNING, *_UNSEEN)}


class LineFormatter(logging.Formatter):
    """A formatter whose lines never contain a secret that `masker` knows."""

    def __init__(self, *, is_json: bool = False, masker: Masker | None = None) -> None:
        super().__init__()
        self._is_json = is_json
        self._masker = masker or Masker()

    def format(self, record: logging.LogRecord) -> str:
        """Return one line without its end."""
        fields = {
            "at": _moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": current_request_id.get() or _ids_of_process["request_id"],
            "operation_id": current_operation_id.get() or _ids_of_process["operation_id"],
            "error": self._error(record),
        }
        safe = {name: self._masker.mask(_cut(text)) for name, text in fields.items() if text}
        if self._is_json:
            return json.dumps({**safe, "pid": record.process}, ensure_ascii=True)
        line = _as_text(safe).translate(_SPELT)
        return line.encode(errors="backslashreplace").decode()  # Halves of a character, too.

    def _error(self, record: logging.LogRecord) -> str:
        parts = []
        if record.exc_info and record.exc_info[0] is not None:
            parts.append(self.formatException(record.exc_info))
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return "\n".join(parts)


def line_formatter(environment: Mapping[str, str]) -> LineFormatter:
    """Build the formatter for the environment. Raises InvalidInput for an unknown format."""
    line_format = environment.get(FORMAT_VARIABLE) or FORMATS[0]
    if line_format not in FORMATS:
        raise InvalidInput(f"{FORMAT_VARIABLE} is neither text nor json", given=line_format[:80])
    return LineFormatter(is_json=line_format == "json", masker=Masker(secret_values(environment)))


def configure(environment: Mapping[str, str]) -> None:
    """Log to standard error, with warnings and uncaught errors; if logging is configured already,
    only these are added. Raises InvalidInput.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(line_formatter(environment))
    level = environment.get(LEVEL_VARIABLE) or "INFO"
    logging.basicConfig(level=level, handlers=[handler])
    log_uncaught()


def log_uncaught() -> None:
    """Log the error that ends a process or a thread as an event, not as a page of lines."""
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread


def bind(*, request_id: str, operation_id: str) -> None:
    """Set the request and operation of this process from now on; empty texts end that."""
    current_request_id.set(request_id)
    current_operation_id.set(operation_id)
    _ids_of_process.update(request_id=request_id, operation_id=operation_id)


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    logging.getLogger("uncaught").critical("the process ends", exc_info=(kind, error, trace))


def _log_uncaught_in_thread(caught: threading.ExceptHookArgs) -> None:
    name = caught.thread.name if caught.thread else ""
    error = caught.exc_value or caught.exc_type()
    logging.getLogger("uncaught").error(
        "a thread ended: %s", name, exc_info=(caught.exc_type, error, caught.exc_traceback)
    )


def _as_text(fields: Mapping[str, str]) -> str:
    head = f"{fields['at']} {fields['level'].upper()} {fields['logger']} "
    ids = "".join(
        f" {name}={fields[name]}" for name in ("request_id", "operation_id") if name in fields
    )
    error = f"\n{fields['error']}" if "error" in fields else ""
    return head + fields.get("message", "") + ids + error


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _cut(text: str) -> str:
    if len(text) <= CHARS_MAX:
        return text
    half = CHARS_MAX // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"
