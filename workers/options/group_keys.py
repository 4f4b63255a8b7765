"""The keys of column groups among those of a table: their meaning and their grammar."""

from __future__ import annotations

from workers.options.aggregates import SLACK_KEY
from workers.options.option import Boolean, Option, Text

GROUPS_KEY = "hoodie.multistream.groups"
JOIN_KEY = "hoodie.multistream.join"
PORTABLE_KEY = "hoodie.multistream.portable"
RETENTION_KEY = "hoodie.multistream.tombstone.retention"
SHORTHAND_KEY = "hoodie.payload.ordering.field"
GROUP_OPTIONS = (
    Option(
        GROUPS_KEY,
        Text("JSON list"),
        "",
        "Which stream writes which columns, and by what each is ordered; see `docs/streams.md`.",
    ),
    Option(SHORTHAND_KEY, Text("`order1:a,b;order2:c`"), "", "Column groups, written in short."),
    Option(
        JOIN_KEY,
        Text("`full`, `left:a`, `right:a`, `inner` or `inner:a,b`"),
        "full",
        "Which groups a row must have before a read shows it, fixed when the table is made.",
    ),
    Option(
        PORTABLE_KEY,
        Boolean(),
        "false",
        "Only groups whose rows other engines read as we do.",
    ),
    Option(
        RETENTION_KEY,
        Text("`30m`, `12h`, `7d`"),
        "7d",
        "How long a compaction remembers deletes, against versions that come late; 1m or more.",
    ),
    Option(
        SLACK_KEY,
        Text("`n`, or a whole number"),
        "",
        "How many elements a list of `collect_topn` remembers beyond those that it shows; `n` is "
        "as many more. A new table with column groups has `n` by default.",
    ),
)
