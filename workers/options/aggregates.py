"""Aggregates of a column group's column, which fold all of its versions instead of taking the
newest. Values only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from workers.errors import InvalidInput

SLACK_KEY = "hoodie.topn.slack"
SLACK_OF_N = "n"
"""Of `hoodie.topn.slack`: every list keeps as many more as it shows."""
_TOP_N = re.compile(r"collect_topn\((\d{1,4})\)")
_SLACK = re.compile(r"\d{1,4}")


class Aggregate(StrEnum):
    """The aggregate of a column of a group (requirements 5.2); names as tables declare them."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    FIRST = "first"
    """The value of the oldest version."""
    LAST_NON_NULL = "last_non_null"
    COLLECT_TOP_N = "collect_topn"
    """A list of structs; the n with the greatest first field stay, each once."""


@dataclass(frozen=True, slots=True)
class ColumnAggregate:
    """The aggregate of a column with its numbers, as the column group declares it."""

    kind: Aggregate
    top_n: int = 0
    slack: int | None = None
    """How many elements a list remembers beyond the `top_n` that it shows. None in tables from
    before there was slack: there a null score is a score, and nothing takes an element out.
    """

    @property
    def text(self) -> str:
        """The text in a table's properties, such as `sum` or `collect_topn(3)`; slack is not part
        of it.
        """
        is_top = self.kind is Aggregate.COLLECT_TOP_N
        return f"{self.kind.value}({self.top_n})" if is_top else self.kind.value

    @property
    def kept(self) -> int:
        """The number of elements that a list stores, hidden ones included."""
        return self.top_n + (self.slack or 0)

    @property
    def is_retractable(self) -> bool:
        """True if an element with a null score removes its item from the list."""
        return self.kind is Aggregate.COLLECT_TOP_N and self.slack is not None


def parse_aggregate(text: Any) -> ColumnAggregate:
    """Parse `sum`, or `collect_topn(3)`; slack is a property of the table. Raises InvalidInput."""
    if match := _TOP_N.fullmatch(str(text).replace(" ", "")):
        if not int(match[1]):
            raise InvalidInput("collect_topn keeps at least one", given=text)
        return ColumnAggregate(Aggregate.COLLECT_TOP_N, int(match[1]))
    try:
        kind = Aggregate(text)
    except ValueError as error:
        allowed = [kind.value for kind in Aggregate]
        raise InvalidInput(
            "unknown aggregate of a column group", given=text, allowed=allowed
        ) from error
    if kind is Aggregate.COLLECT_TOP_N:
        raise InvalidInput("collect_topn needs a number of rows, as in collect_topn(3)", given=text)
    return ColumnAggregate(kind)


def check_slack(text: str) -> str:
    """Check the text of `hoodie.topn.slack`, which is empty in tables created before slack existed.

    Raises InvalidInput.
    """
    if text and text != SLACK_OF_N and not _SLACK.fullmatch(text):
        raise InvalidInput(
            "slack is a whole number below 10,000, or n for as many as a list shows",
            key=SLACK_KEY,
            given=text,
        )
    return text


def parse_slack(text: str, top_n: int) -> int | None:
    """Return how many items more than `top_n` a list stores, by the checked value of
    `hoodie.topn.slack`, or None if it is empty.
    """
    if not text:
        return None
    return top_n if text == SLACK_OF_N else int(text)
