"""Facts that a load reports: the row that it refuses, and the values that it changed in form."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from workers.errors import InvalidInput


class UnfitNames(InvalidInput):
    """Names of columns that a table does not take; `names=clean` makes others of them."""


class BadRow(InvalidInput):
    """One row of a file, by its line and column. `value` is for who may read the file; the message
    does not hold it, because messages are shown to others too.
    """

    def __init__(
        self,
        reason: str,
        *,
        file: str,
        line: int | None = None,
        row: int | None = None,
        column: str = "",
        advice: str = "",
        value: str = "",
    ) -> None:
        self.value = value[:200]
        named: dict[str, object] = {"file": file}
        if line is not None:
            named["line"] = line
        elif row is not None:
            named["row"] = row
        if column:
            named["column"] = column
        super().__init__(f"{reason}; {advice}" if advice else reason, **named)


@dataclass(slots=True)
class LoadCounts:
    """Numbers of one load; they grow while its batches are read."""

    rows: int = 0
    bytes_read: int = 0
    nulls_by_word: Counter[str] = field(default_factory=Counter)
    """By the word that was taken for a missing value; an empty field by the empty word."""
    nulls_by_column: Counter[str] = field(default_factory=Counter)
    conversions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By column, and what was done to its values."""
    left_out: list[str] = field(default_factory=list)
    """New columns, or fields within one, that have no value in the whole file."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Stored names by those of the file, where they are not the same."""

    def convert(self, column: str, what: str, count: int) -> None:
        """Count values of a column that are stored in another form than they came in."""
        if count:
            self.conversions[column, what] += count

    @property
    def sentences(self) -> list[str]:
        """Facts that a user should know in addition to the number of rows, one a line."""
        lines = [f"column {old!r} is stored as {new}" for old, new in self.renamed.items()]
        lines += [f"{name} has no value and is left out" for name in self.left_out]
        lines += [
            f"{count} {'value' if count == 1 else 'values'} of {column}: {what}"
            for (column, what), count in sorted(self.conversions.items())
        ]
        lines += [
            f"{count} x {word} is taken as a missing value"
            for word, count in sorted(self.nulls_by_word.items())
            if word
        ]
        return lines
