"""Where a page of rows ended: the moment that its rows are of, how many of them were given, and of
which files, so that the next page goes on behind them or says that it cannot.

Rows come in the order of the files that hold them. While these are the same, so is the order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from controlplane.errors import InvalidRequest

CURSOR_CHARS_MAX: Final = 80
DEEPEST: Final = 100_000
"""Rows that may lie before a page: they are read, though nobody is given them."""
DEEPEST_SORTED: Final = 10_000
"""The same of sorted rows, which are held in memory."""
_CURSOR: Final = re.compile(r"\A([0-9]{17})\.([0-9]{1,6})\.([0-9a-f]{16})(\.now)?\Z")


@dataclass(frozen=True, slots=True)
class RowsCursor:
    moment: str
    """A completion time: rows are as of then."""
    given: int
    files: str
    """A digest of the files and of what chose the rows."""
    is_of_now: bool
    """The first page was of the latest rows, and the moment that of the newest commit then."""

    @property
    def text(self) -> str:
        """As it goes through an address."""
        now = ".now" if self.is_of_now else ""
        return f"{self.moment}.{self.given}.{self.files}{now}"


def read_rows_cursor(text: str) -> RowsCursor | None:
    """None for the first page. Raises InvalidRequest for what is no cursor."""
    if not text:
        return None
    match = _CURSOR.match(text)
    if match is None or int(match[2]) > DEEPEST:
        raise InvalidRequest("invalid cursor", cursor=text[:CURSOR_CHARS_MAX])
    return RowsCursor(match[1], int(match[2]), match[3], is_of_now=match[4] is not None)
