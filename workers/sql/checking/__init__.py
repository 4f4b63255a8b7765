"""A SELECT from somebody who is not trusted, checked before anything of it runs.

`check_select(statement, readable)` takes the text as it came and a function that says which of the
tables that it names may be read::

    def readable(
        names: frozenset[str],
    ) -> Mapping[
        str, ReadableTable
    ]: ...  # those of `names`, in lower case as written, whose rows this person may read


    checked = check_select("SELECT city, count(*) AS n FROM sales GROUP BY city", readable)
    checked.tables  # {"sales": CheckedTable(relation="_sluice_0", columns=("city",))}
    checked.columns  # (OutputColumn("city"), OutputColumn("n"))
    checked.text("duckdb")  # SELECT "_sluice_0"."city" AS "city", COUNT(*) AS "n" FROM ...

Refusals are InvalidInput: StatementRefused, UnreadableTable, MaskedColumnUsed. Nobody hands the
text itself to an engine: what goes there is spelled anew from the tree that was checked, each
column qualified and each table under a name of ours. Where masked columns must not be shown at all,
as in a write, look at `OutputColumn.is_masked`.
"""

from __future__ import annotations

from workers.sql.checking.check import check_select
from workers.sql.checking.checked import CheckedSelect, CheckedTable, OutputColumn, ReadableTable
from workers.sql.checking.refusals import MaskedColumnUsed, StatementRefused, UnreadableTable

__all__ = [
    "CheckedSelect",
    "CheckedTable",
    "MaskedColumnUsed",
    "OutputColumn",
    "ReadableTable",
    "StatementRefused",
    "UnreadableTable",
    "check_select",
]
