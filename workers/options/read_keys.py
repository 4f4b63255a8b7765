"""The keys of Spark's data source: for reads, for the operation of a write, and for streams."""

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
COLUMNS: Final = "columns"
HUDI_COLUMNS: Final = "hoodie.read.columns"
WHERE: Final = "where"
FILTER: Final = "sluice.read.filter"
START: Final = "hoodie.datasource.streaming.startOffset"
STREAM_NAME: Final = "hoodie.datasource.write.streaming.checkpoint.identifier"
OF_SPARK_STREAMS: Final = frozenset(("checkpointlocation", "queryname"))
"""Options of a streaming query that are meant for Spark and handed to every sink, in lower case."""

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
        Option(HUDI_COLUMNS, Text("columns"), "", "The same in Hudi's spelling."),
        Option(
            WHERE,
            Text("condition"),
            "",
            "Read only rows that meet it: the spelling of SQL, over the table's columns.",
        ),
        Option(FILTER, Text("condition"), "", "The same as `where`."),
        Option(
            START,
            Text("`earliest`, `latest`, instant or time"),
            "earliest",
            "Where a stream begins that has no checkpoint yet: with all that the table holds, with "
            "what comes, or after all that had completed then.",
        ),
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
STREAM_OPTIONS: Final = OptionSet(
    "option of streams that Spark writes",
    Setter.WRITE,
    (
        Option(
            STREAM_NAME,
            Text("name"),
            "",
            "The stream's name in this table; needed by `writeStream`. With the epoch's number it "
            "is stored in each commit, so that an epoch which is sent again is not written again.",
        ),
    ),
)
