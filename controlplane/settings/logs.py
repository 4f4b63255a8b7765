"""Log lines: one event stays one line, whatever the text it carries (threat T17)."""

from __future__ import annotations

import logging

_CONTROL = {code: f"\\x{code:02x}" for code in [*range(32), 127, *range(128, 160)]}
_CONTROL |= {
    code: f"\\u{code:04x}"
    for code in [0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
}


class OneLineFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).translate(_CONTROL)
