"""Why a statement does not run. All of them mean that nothing of it did."""

from __future__ import annotations

from workers.errors import InvalidInput


class StatementRefused(InvalidInput):
    """The statement says something that is not on the list of what may be said. Leave it out."""

    code = "statement_refused"


class UnreadableTable(StatementRefused):
    """A table that there is not, or whose rows this person may not read. Ask for the right."""

    code = "table_not_readable"


class MaskedColumnUsed(StatementRefused):
    """A masked column is used for more than to be shown. Show it as it is, or leave it out."""

    code = "masked_column_used"
