"""The table services: what each is for, who may run it, and its parameters.

The engine checks every parameter again. A name that is not listed here is not offered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from controlplane.operations.descriptions.field import (
    PLAN_HASH,
    REASON,
    TABLE_NAME,
    Choice,
    Description,
    Field,
    FieldType,
)
from controlplane.operations.descriptions.write import FILE_OPTIONS, MISSING
from controlplane.tables.access import Permission

PARAMETER_CHARS_MAX: Final = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A table service. A parameter that is left out is the engine's to choose."""

    name: str
    title: str
    verb: str
    """With its object, for a button."""
    purpose: str
    takes: str = ""
    """What it removes permanently; empty where nothing is lost."""
    permission: Permission = Permission.ADMINISTER
    """Operators run services that keep every snapshot that readers were promised."""
    action: str = ""
    """Behind `manage.py table`, where that is not its name with dashes."""
    fields: Sequence[Field] = ()

    @property
    def command(self) -> str:
        """The words behind `manage.py`."""
        return f"table {self.action or self.name.replace('_', '-')}"


def list_choices(*values: str) -> tuple[Choice, ...]:
    """Return choices that are shown by their values."""
    return tuple(Choice(value) for value in values)


_INSTANT = Field(
    "instant", "Instant", "17 digits, as on the timeline.", is_needed=True, argument="instant"
)
_FILE = (
    Field(
        "path",
        "File with the rows",
        "Absolute path of a CSV, JSON or Parquet file below a source root, 256 MB at most.",
        is_needed=True,
        argument="path",
    ),
    MISSING,
    *(replace(option, argument="") for option in FILE_OPTIONS if option.form_name),
)
_CUSTOM = "For a custom key generator with a time."
_SERVICES = (
    Service(
        name="compaction",
        action="compact",
        permission=Permission.OPERATE,
        title="Compaction",
        verb="Compact",
        purpose="Merges log files into base files, so reads no longer merge them.",
        fields=(
            Field(
                "hoodie.compaction.strategy",
                "File group order",
                choices=list_choices(
                    "LogFileSizeBasedCompactionStrategy",
                    "LogFileNumBasedCompactionStrategy",
                    "BoundedIOCompactionStrategy",
                    "UnBoundedCompactionStrategy",
                ),
            ),
            Field("hoodie.compaction.target.io", "I/O limit (MB)", type=FieldType.NUMBER),
            Field(
                "hoodie.compaction.logfile.num.threshold",
                "Minimum log files",
                type=FieldType.NUMBER,
            ),
        ),
    ),
    Service(
        name="clustering",
        action="cluster",
        permission=Permission.OPERATE,
        title="Clustering",
        verb="Cluster",
        purpose="Rewrites file groups with their rows sorted, so reads skip more files.",
        fields=(
            Field(
                "hoodie.clustering.plan.strategy.sort.columns",
                "Sort by",
                "Column names, separated by commas. A pending plan keeps its own.",
            ),
            Field(
                "hoodie.layout.optimize.strategy",
                "Layout",
                choices=list_choices("linear", "z-order"),
            ),
            Field(
                "hoodie.clustering.plan.strategy.partition.selected",
                "Partitions",
                "Separated by commas; all when empty.",
            ),
        ),
    ),
    Service(
        name="clean",
        permission=Permission.OPERATE,
        title="Cleaning",
        verb="Clean",
        purpose="Deletes file versions that no snapshot, savepoint or pending plan needs.",
        takes="Time travel to before the retained commits.",
        fields=(
            Field(
                "hoodie.clean.policy",
                "Retention policy",
                choices=list_choices(
                    "KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS", "KEEP_LATEST_FILE_VERSIONS"
                ),
            ),
            Field("hoodie.clean.commits.retained", "Commits kept", type=FieldType.NUMBER),
            Field("hoodie.clean.hours.retained", "Hours kept", type=FieldType.NUMBER),
            Field("hoodie.clean.fileversions.retained", "Versions kept", type=FieldType.NUMBER),
            Field(
                "sluice.reader.retention.minutes", "Longest read (minutes)", type=FieldType.NUMBER
            ),
        ),
    ),
    Service(
        name="archive",
        permission=Permission.OPERATE,
        title="Archiving",
        verb="Archive",
        purpose="Moves old instants to the archived timeline, so timeline listings stay short.",
        fields=(
            Field("hoodie.keep.min.commits", "Minimum commits kept", type=FieldType.NUMBER),
            Field("hoodie.keep.max.commits", "Archive above (commits)", type=FieldType.NUMBER),
        ),
    ),
    Service(
        name="upgrade",
        title="Upgrade",
        verb="Upgrade the table",
        purpose="Upgrades a table of version 6 or 8 to version 9, which Sluice writes. Its "
        "timeline and its properties change; no data file changes.",
        takes="The old version: engines without version 9 can no longer read the table.",
        fields=(
            Field(
                "hoodie.datasource.write.partitionpath.field",
                "Partition fields",
                "With types, such as place:SIMPLE,ts:TIMESTAMP; for a custom key generator.",
            ),
        ),
    ),
    Service(
        name="adopt",
        title="Adopt",
        verb="Adopt the table",
        purpose="Allows Sluice to write to a table of another engine. Derives the placement of "
        "keys from its rows, and stores it in the table's properties.",
        fields=(
            Field(
                "hoodie.index.type",
                "Index",
                "If it is not the bucket index: BLOOM, SIMPLE, GLOBAL_BLOOM, GLOBAL_SIMPLE.",
            ),
            Field(
                "hoodie.bucket.index.num.buckets",
                "Buckets",
                "Needed only if the rows do not show it.",
                type=FieldType.NUMBER,
            ),
            Field(
                "hoodie.bucket.index.hash.field",
                "Hashed fields",
                "If only a part of the key is hashed.",
            ),
            *(
                Field(f"hoodie.keygen.timebased.{part}", label, _CUSTOM)
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
    Service(
        name="savepoint",
        permission=Permission.OPERATE,
        title="Savepoint",
        verb="Create the savepoint",
        purpose="Keeps the files of one completed instant until the savepoint is deleted.",
        fields=(_INSTANT, Field("comment", "Comment", "Purpose of the savepoint.")),
    ),
    Service(
        name="delete_savepoint",
        title="Delete a savepoint",
        verb="Delete the savepoint",
        purpose="Allows the cleaner to delete the files that only this savepoint keeps.",
        takes="The state of the savepoint, after the next cleaning.",
        fields=(_INSTANT,),
    ),
    Service(
        name="restore",
        title="Restore",
        verb="Restore",
        purpose="Restores a savepoint by undoing every later instant, newest first.",
        takes="Every write after that instant.",
        fields=(_INSTANT,),
    ),
    Service(
        name="rollback_several",
        title="Roll back several",
        verb="Roll back",
        purpose="Undoes the selected instants as one plan, newest first. Each is a step; the run "
        "stops at the first rejected step.",
        takes="The writes of these instants.",
        fields=(
            Field(
                argument="instants",
                name="instants",
                label="Instants",
                help="17 digits each, separated by commas.",
            ),
            Field("after", "Or all later than", "The commit that becomes the newest."),
        ),
    ),
    Service(
        name="delete",
        title="Delete rows",
        verb="Delete the rows",
        purpose="Deletes rows by condition, by key or by a file of keys, as one commit that can be "
        "rolled back.",
        takes="The matching rows.",
        fields=(
            Field(
                argument="predicate",
                name="predicate",
                label="Condition",
                help="Such as city = 'Oslo' and ts < 5.",
            ),
            Field(
                "keys",
                "Keys",
                'JSON: ["a", "b"], or [{"id": "a", "city": "Oslo"}] for keys of more columns',
                type=FieldType.LINES,
            ),
            Field(
                "path", "File of keys", "Absolute path of a .csv or .parquet below a source root."
            ),
        ),
    ),
    Service(
        name="repair",
        title="Repair",
        verb="Delete the files",
        purpose="Finds leftover files with their evidence: temporary files of interrupted writes, "
        "data files of instants that never completed, and a stale lock file of Apache Hudi.",
        takes="The files of the plan. None of them is committed.",
    ),
    Service(
        name="delete_markers",
        permission=Permission.OPERATE,
        title="Delete orphaned markers",
        verb="Delete the markers",
        purpose="Deletes markers of instants that are no longer pending. No data file changes.",
    ),
    Service(
        name="insert_overwrite",
        title="Overwrite partitions",
        verb="Overwrite the partitions",
        purpose="Replaces all rows of the partitions in a file with the rows of the file.",
        takes="All current rows of these partitions.",
        fields=_FILE,
    ),
    Service(
        name="insert_overwrite_table",
        title="Overwrite the table",
        verb="Overwrite the table",
        purpose="Replaces all rows of the table with the rows of a file.",
        takes="All current rows of the table.",
        fields=_FILE,
    ),
    Service(
        name="delete_partition",
        title="Delete partitions",
        verb="Delete the partitions",
        purpose="Deletes whole partitions as one commit that can be rolled back.",
        takes="All rows of these partitions.",
        fields=(
            Field(
                "partitions",
                "Partitions",
                "Paths, separated by commas.",
                is_needed=True,
                argument="partitions",
            ),
        ),
    ),
)
SERVICES: Final[Mapping[str, Service]] = {service.name: service for service in _SERVICES}
_PARAMETERS: Final = Field(
    "parameters",
    "Parameters",
    "The service's own settings, all as text.",
    type=FieldType.OPTIONS,
    default=dict,
    chars_max=PARAMETER_CHARS_MAX,
    may_be_blank=True,
    is_first=True,
    in_form="",
    argument="--set",
)
PLAN_SERVICE: Final = Description(
    name="service.plan",
    purpose="Plan a run of a table service. Nothing is changed.",
    address="tables/{slug}/services/{service}/plan/",
    body="ServicePlanRequest",
    call="plan_service",
    answer="ServicePlanView",
    permission=Permission.VIEW,
    takes_key=False,
    fields=(_PARAMETERS,),
)
SERVICE: Final = Description(
    name="service",
    purpose="Run a table service. Services that delete data need their plan and a reason.",
    address="tables/{slug}/services/{service}/",
    body="ServiceRequest",
    call="run_service",
    answer="OperationDetail",
    permission=Permission.OPERATE,
    plan="ServicePlanView",
    fields=(_PARAMETERS, PLAN_HASH, REASON, TABLE_NAME),
)


def get_service(name: str) -> Service:
    """Return the service, or one without parameters if the engine has gained it since."""
    title = name.replace("_", " ").capitalize()
    unknown = Service(name=name, title=title, verb=f"Run {title.lower()}", purpose="")
    return SERVICES.get(name, unknown)


def read_parameters(service: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters that a form brings, as the engine takes them."""
    values = {
        field.name: texts.get(field.name, "").strip() for field in get_service(service).fields
    }
    return {name: value[:PARAMETER_CHARS_MAX] for name, value in values.items() if value}


def find_missing(service: str, parameters: Mapping[str, str]) -> list[Field]:
    """Return the needed fields without a value."""
    fields = get_service(service).fields
    return [field for field in fields if field.is_needed and field.name not in parameters]
