"""The error for a row of a file that a table cannot take as it is."""

from __future__ import annotations

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
