"""The keys of Spark's data source: of reads, and which operation a write is."""

from __future__ import annotations

from typing import Final

from workers.options.option import Option, OptionSet, Setter, Text

PATH: Final = "path"
OPERATION: Final = "hoodie.datasource.write.operation"
QUERY: Final = "query"
QUERY_TYPE: Final = "hoodie.datasource.query.type"
INCREMENTAL_FORMAT: Final = "hoodie.datasource.query.incremental.format"
AS_OF: Final = "as.of.instant"
SINCE: Final = "hoodie.datasource.read.begin.instanttime"
UNTIL: Final = "hoodie.datasource.read.end.instanttime"
COLUMNS: Final = "hoodie.read.columns"
FILTER: Final = "sluice.read.filter"

READ_OPTIONS: Final = OptionSet(
    "read option",
    Setter.READ,
    (
        Option(PATH, Text("path"), "", "Where the table is; needed."),
        Option(
            QUERY,
            Text("`snapshot`, `read_optimized`, `incremental` or `cdc`"),
            "snapshot",
            "What is read.",
        ),
        Option(QUERY_TYPE, Text("as `query`"), "", "Hudi's name for it."),
        Option(
            INCREMENTAL_FORMAT,
            Text("`latest_state` or `cdc`"),
            "latest_state",
            "What an incremental query gives.",
        ),
        Option(AS_OF, Text("instant or time"), "", "Read the table as it was then."),
        Option(SINCE, Text("instant or time"), "", "Begin of an incremental query, left out."),
        Option(UNTIL, Text("instant or time"), "", "Its end, included; the newest when empty."),
        Option(COLUMNS, Text("columns"), "", "Read only these; all when empty."),
        Option(FILTER, Text("condition"), "", "Of Spark SQL, over the table's columns."),
    ),
)
OPERATION_OPTIONS: Final = OptionSet(
    "option of writes through Spark",
    Setter.WRITE,
    (
        Option(
            OPERATION,
            Text("`upsert`, `insert`, `bulk_insert`, `delete`, `insert_overwrite`, ..."),
            "upsert",
            "What a write of a data frame does; `insert_overwrite_table` with mode overwrite.",
        ),
    ),
)
