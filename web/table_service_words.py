"""What the pages say of each table service, and what a person may choose before it is planned.

The engine checks every parameter again; a name that is not listed here is not offered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PARAMETER_CHARS_MAX = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One parameter of a service; an empty value leaves it to the engine."""

    name: str
    label: str
    hint: str = ""
    options: Sequence[str] = ()
    kind: str = "text"
    is_needed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceText:
    """What the pages say of a service."""

    title: str
    verb: str
    purpose: str
    takes: str = ""
    """What is gone for good afterwards; empty for what loses nothing."""
    choices: Sequence[Choice] = field(default_factory=tuple)


_INSTANT = Choice(
    name="instant", label="Instant", hint="17 digits, as on the timeline", is_needed=True
)
_FILE = (
    Choice(
        name="path",
        label="File with the rows",
        hint="absolute path of a .csv or .parquet below a source root, 256 MB at most",
        is_needed=True,
    ),
    Choice(name="missing", label="Missing value", hint="the word for it in a CSV; NA when empty"),
)
_OF_CUSTOM = "of a custom key generator with a time"
TEXTS: Mapping[str, ServiceText] = {
    "compaction": ServiceText(
        title="Compaction",
        verb="Compact",
        purpose="Merges log files into new base files, so that reads need not merge them again.",
        choices=(
            Choice(
                name="hoodie.compaction.strategy",
                label="File groups in the order of",
                options=(
                    "LogFileSizeBasedCompactionStrategy",
                    "LogFileNumBasedCompactionStrategy",
                    "BoundedIOCompactionStrategy",
                    "UnBoundedCompactionStrategy",
                ),
            ),
            Choice(name="hoodie.compaction.target.io", label="At most, in MB", kind="number"),
            Choice(
                name="hoodie.compaction.logfile.num.threshold",
                label="With at least, logs",
                kind="number",
            ),
        ),
    ),
    "clustering": ServiceText(
        title="Clustering",
        verb="Cluster",
        purpose="Rewrites file groups with their rows in another order, so that reads skip more.",
        choices=(
            Choice(
                name="hoodie.clustering.plan.strategy.sort.columns",
                label="Sort by",
                hint="column names, separated by commas; a pending plan has its own",
            ),
            Choice(
                name="hoodie.layout.optimize.strategy",
                label="Layout",
                options=("linear", "z-order"),
            ),
            Choice(
                name="hoodie.clustering.plan.strategy.partition.selected",
                label="Partitions",
                hint="separated by commas; all when empty",
            ),
        ),
    ),
    "clean": ServiceText(
        title="Cleaning",
        verb="Clean",
        purpose="Deletes file versions that no snapshot, savepoint or pending plan needs.",
        takes="Time travel to before what is kept.",
        choices=(
            Choice(
                name="hoodie.clean.policy",
                label="Keep by",
                options=(
                    "KEEP_LATEST_COMMITS",
                    "KEEP_LATEST_BY_HOURS",
                    "KEEP_LATEST_FILE_VERSIONS",
                ),
            ),
            Choice(name="hoodie.clean.commits.retained", label="Commits kept", kind="number"),
            Choice(name="hoodie.clean.hours.retained", label="Hours kept", kind="number"),
            Choice(name="hoodie.clean.fileversions.retained", label="Versions kept", kind="number"),
            Choice(
                name="sluice.reader.retention.minutes",
                label="Longest reader, minutes",
                kind="number",
            ),
        ),
    ),
    "archive": ServiceText(
        title="Archiving",
        verb="Archive",
        purpose="Moves old instants into the history, so that listings of the timeline stay short.",
        choices=(
            Choice(name="hoodie.keep.min.commits", label="Commits that stay", kind="number"),
            Choice(name="hoodie.keep.max.commits", label="Begin above", kind="number"),
        ),
    ),
    "upgrade": ServiceText(
        title="Upgrade",
        verb="Upgrade the table",
        purpose="Brings a table of version 6 or 8 to version 9, which Sluice writes: its timeline "
        "and its properties change, no data file does.",
        takes="The old version: engines that do not know version 9 no longer read the table.",
        choices=(
            Choice(
                name="hoodie.datasource.write.partitionpath.field",
                label="Partition fields",
                hint="with types, such as place:SIMPLE,ts:TIMESTAMP; for a custom key generator",
            ),
        ),
    ),
    "adopt": ServiceText(
        title="Adopt",
        verb="Adopt the table",
        purpose="Lets Sluice write into a table that another engine made: proves from its rows "
        "where keys lie, and writes that down in the table's properties.",
        choices=(
            Choice(
                name="hoodie.index.type",
                label="Index",
                hint="when it is not the bucket index: BLOOM, SIMPLE, GLOBAL_BLOOM, GLOBAL_SIMPLE",
            ),
            Choice(
                name="hoodie.bucket.index.num.buckets",
                label="Buckets",
                hint="needed only where the rows do not tell",
                kind="number",
            ),
            Choice(
                name="hoodie.bucket.index.hash.field",
                label="Hashed fields",
                hint="when not the whole key is hashed",
            ),
            *(
                Choice(name=f"hoodie.keygen.timebased.{part}", label=label, hint=_OF_CUSTOM)
                for part, label in (
                    ("timestamp.type", "Type of times"),
                    ("timestamp.scalar.time.unit", "Unit of times"),
                    ("input.dateformat", "Pattern of texts"),
                    ("output.dateformat", "Pattern of the path"),
                    ("timezone", "Time zone"),
                )
            ),
        ),
    ),
    "savepoint": ServiceText(
        title="Savepoint",
        verb="Create the savepoint",
        purpose="Keeps the files of one completed instant until the savepoint is deleted.",
        choices=(_INSTANT, Choice(name="comment", label="Comment", hint="What it is kept for")),
    ),
    "delete_savepoint": ServiceText(
        title="Delete a savepoint",
        verb="Delete the savepoint",
        purpose="Lets the cleaner take the files that only this savepoint keeps.",
        takes="The way back to that state, once the cleaner has run.",
        choices=(_INSTANT,),
    ),
    "restore": ServiceText(
        title="Restore",
        verb="Restore",
        purpose="Puts the table back to a savepoint by undoing every later instant, newest first.",
        takes="Every write after that instant.",
        choices=(_INSTANT,),
    ),
    "rollback_several": ServiceText(
        title="Roll several back",
        verb="Roll back",
        purpose="Undoes the instants that are chosen as one plan, newest first, each as a step of "
        "its own, and stops at the first step that is refused.",
        takes="What these instants wrote.",
        choices=(
            Choice(name="instants", label="Instants", hint="17 digits each, commas between them"),
            Choice(name="after", label="Or all after", hint="the commit that is the newest then"),
        ),
    ),
    "delete": ServiceText(
        title="Delete rows",
        verb="Delete the rows",
        purpose="Deletes rows by condition, by key or by a file of keys, as one commit that can be "
        "rolled back.",
        takes="The rows it names.",
        choices=(
            Choice(name="predicate", label="Condition", hint="such as city = 'Oslo' and ts < 5"),
            Choice(
                name="keys",
                label="Keys",
                hint='JSON: ["a", "b"], or [{"id": "a", "city": "Oslo"}] for keys of more columns',
                kind="area",
            ),
            Choice(
                name="path",
                label="File of keys",
                hint="absolute path of a .csv or .parquet below a source root",
            ),
        ),
    ),
    "repair": ServiceText(
        title="Repair",
        verb="Delete what is left behind",
        purpose="Finds what nobody misses, each file with its evidence: temporary files of writes "
        "that were cut off, data files of instants that will never count, a lock file that "
        "Apache Hudi left.",
        takes="The files of the plan. No committed file is among them.",
    ),
    "delete_markers": ServiceText(
        title="Delete orphaned markers",
        verb="Delete the markers",
        purpose="Deletes markers of instants that are not pending any more. No data file changes.",
    ),
    "insert_overwrite": ServiceText(
        title="Overwrite partitions",
        verb="Overwrite the partitions",
        purpose="Puts the rows of a file in the place of all that their partitions hold now.",
        takes="Every row that is in these partitions now.",
        choices=_FILE,
    ),
    "insert_overwrite_table": ServiceText(
        title="Overwrite the table",
        verb="Overwrite the table",
        purpose="Puts the rows of a file in the place of all that the table holds now.",
        takes="Every row that is in the table now.",
        choices=_FILE,
    ),
    "delete_partition": ServiceText(
        title="Delete partitions",
        verb="Delete the partitions",
        purpose="Takes whole partitions out of the table, as one commit that can be rolled back.",
        takes="Every row of the partitions it names.",
        choices=(
            Choice(
                name="partitions",
                label="Partitions",
                hint="paths, separated by commas",
                is_needed=True,
            ),
        ),
    ),
}


def text_of(service: str) -> ServiceText:
    """A service that the engine has gained since has a title at least."""
    title = service.replace("_", " ").capitalize()
    return TEXTS.get(service) or ServiceText(title=title, verb=f"Run {title.lower()}", purpose="")


def chosen(service: str, texts: Mapping[str, str]) -> dict[str, str]:
    """The parameters that a request names, as the engine takes them."""
    values = {one.name: texts.get(one.name, "").strip() for one in text_of(service).choices}
    return {name: value[:PARAMETER_CHARS_MAX] for name, value in values.items() if value}


def missing(service: str, parameters: Mapping[str, str]) -> list[Choice]:
    return [one for one in text_of(service).choices if one.is_needed and one.name not in parameters]
