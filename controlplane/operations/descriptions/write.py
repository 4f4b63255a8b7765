"""A write: its source by kind, what the table does with the rows, and how it is confirmed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from controlplane.operations.descriptions.field import (
    LEFT_OUT,
    PLAN_HASH,
    REASON,
    TABLE_NAME,
    Choice,
    Description,
    Field,
    FieldType,
)
from controlplane.tables.access import Permission
from workers.loading.options import COMPRESSIONS

FILES: Final = ("csv", "json", "parquet", "arrow")
STATEMENT_CHARS_MAX: Final = 20_000
BROKER: Final = "localhost:9092"
"""What the field of an address begins with."""
_COLUMNS_CHARS_MAX: Final = 4000
_INTO: Final = "Table"
_FROM: Final = "Source"
SECURITY: Final = "Broker security"
READING: Final = "File options"

CONNECTION: Final = Field(
    name="connection",
    label="Connection",
    help="A connection that the table's namespace may use.",
    refusal="Choose a connection; an admin grants them to namespaces.",
    of=(*FILES, "kafka", "postgresql"),
    group=_FROM,
)
TOPIC: Final = Field(
    name="topic",
    label="Topic",
    chars_max=249,
    is_needed=True,
    refusal="Enter the topic.",
    of=("kafka",),
    group=_FROM,
)
BOOTSTRAP: Final = Field(
    name="bootstrap",
    label="Broker",
    help="host:port, comma-separated.",
    chars_max=1000,
    default=BROKER,
    of=("kafka",),
    group=_FROM,
)
BROKER_SECURITY: Final = (
    Field(
        name="protocol",
        label="Protocol",
        choices=[
            Choice(value="", label="not secured"),
            *(Choice(value=name) for name in ("SSL", "SASL_SSL", "SASL_PLAINTEXT")),
        ],
        of=("kafka",),
        group=SECURITY,
    ),
    Field(
        name="mechanism",
        label="SASL mechanism",
        choices=[
            Choice(value="", label="none"),
            *(Choice(value=name) for name in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
        ],
        of=("kafka",),
        group=SECURITY,
    ),
    Field(name="username", label="User", chars_max=200, of=("kafka",), group=SECURITY),
    Field(
        name="password_env",
        label="Password variable",
        help="SLUICE_KAFKA_…, an environment variable of the node; the password is not stored.",
        chars_max=100,
        of=("kafka",),
        group=SECURITY,
    ),
    Field(
        name="ca",
        label="CA file",
        help="PEM file in SLUICE_KAFKA_CA_FOLDER.",
        chars_max=700,
        of=("kafka",),
        group=SECURITY,
    ),
)
PATH: Final = Field(
    name="path",
    label="File",
    help="A file, a folder, or names such as /d/*.csv: an absolute path in a source root, "
    "s3://bucket/name, or a path in the connection.",
    chars_max=700,
    is_needed=True,
    refusal="Enter the path of the file.",
    of=FILES,
    group=_FROM,
)
MISSING: Final = Field(
    name="missing",
    label="Missing value",
    help="The word for a missing value in a CSV; NA when empty.",
    chars_max=50,
    of=("csv",),
    group=_FROM,
)
FILE_OPTIONS: Final = (
    Field(
        name="delimiter",
        label="Delimiter",
        help="A comma, or such as ; or tab.",
        chars_max=8,
        of=("csv",),
        group=READING,
    ),
    Field(
        name="encoding",
        label="Encoding",
        help="utf-8, or such as latin-1.",
        chars_max=40,
        of=("csv", "json"),
        group=READING,
    ),
    Field(
        name="null_words",
        label="Words for missing values",
        help="Comma-separated, or none; they replace the one word above.",
        chars_max=500,
        of=("csv",),
        group=READING,
    ),
    Field(
        name="time_zone",
        label="Time zone",
        help="Of times that name none, such as Europe/Oslo.",
        chars_max=80,
        of=("csv", "json"),
        group=READING,
    ),
    Field(
        name="decimal_comma",
        label="Decimal sign",
        choices=(
            Choice(value="", label="as for the table's last file, or a point"),
            Choice(value="false", label="a point"),
            Choice(value="true", label="a comma: 1.234,5"),
        ),
        of=("csv",),
        group=READING,
    ),
    Field(
        name="header",
        label="First line",
        choices=(
            Choice(value="", label="as for the table's last file, or the names"),
            Choice(value="true", label="names the columns"),
            Choice(value="false", label="is data"),
        ),
        of=("csv",),
        group=READING,
    ),
    Field(
        name="column_types",
        label="Types of new columns",
        help="zip=string; price=decimal(10,2).",
        chars_max=_COLUMNS_CHARS_MAX,
        of=("csv", "json"),
        group=READING,
    ),
    Field(
        name="names",
        label="Names of columns",
        choices=(
            Choice(value="", label="as for the table's last file, or as they are"),
            Choice(value="as_is", label="as they are"),
            Choice(value="clean", label="made plain: Unit Price is Unit_Price"),
        ),
        of=FILES,
        group=READING,
    ),
    Field(
        name="compression",
        label="Compression",
        help="Where neither the first bytes nor the name show it.",
        choices=[Choice(value=name) for name in COMPRESSIONS],
        of=FILES,
        in_form="",
    ),
    Field(
        name="quote",
        label="Quote",
        help='What quotes a field, such as ", or none.',
        chars_max=8,
        of=("csv",),
        in_form="",
    ),
    Field(
        name="escape",
        label="Escape",
        help="The character that escapes the next one; by default none does.",
        chars_max=8,
        of=("csv",),
        in_form="",
    ),
    Field(
        name="decoded_gb_max",
        label="Decoded size, GiB",
        help="What a Parquet file may decode to if that is more than 1000 times its size; 1 when "
        "empty. For admins.",
        chars_max=4,
        of=("parquet", "arrow"),
        in_form="",
    ),
)
"""How a file is read: options of `workers.loading`, by their names there."""
_LOADED: Final = (
    *("connection", "missing", "key_from", "table", "query"),
    *(option.name for option in FILE_OPTIONS),
)
"""The parts with an argument of `manage.py write`, which loads a file or rows of a database."""
_PARTS: Final = (
    TOPIC,
    CONNECTION,
    PATH,
    MISSING,
    Field(
        name="columns",
        label="Columns",
        help="Comma-separated; empty for all.",
        chars_max=_COLUMNS_CHARS_MAX,
        of=("csv",),
        group=_FROM,
    ),
    Field(
        name="key",
        label="Generated key column",
        help="For files without a key column.",
        chars_max=255,
        of=("csv",),
        group=_FROM,
    ),
    Field(
        name="key_from",
        label="Generated from",
        help="Comma-separated columns.",
        chars_max=_COLUMNS_CHARS_MAX,
        of=("csv",),
        group=_FROM,
    ),
    *FILE_OPTIONS,
    Field(
        name="statement",
        label="Statement",
        help="One SELECT over tables that you may read, as slug or namespace.slug.",
        type=FieldType.LINES,
        chars_max=STATEMENT_CHARS_MAX,
        is_needed=True,
        refusal="Enter one SELECT statement.",
        of=("sql",),
        group=_FROM,
    ),
    Field(
        name="table",
        label="Table",
        help="schema.name; empty if you enter a query.",
        chars_max=130,
        of=("postgresql",),
        argument="--source-table",
        group=_FROM,
    ),
    Field(
        name="query",
        label="Query",
        help="One SELECT, run in a read-only transaction.",
        type=FieldType.LINES,
        chars_max=STATEMENT_CHARS_MAX,
        of=("postgresql",),
        group=_FROM,
    ),
    BOOTSTRAP,
    Field(
        name="format",
        label="Value format",
        choices=(Choice(value="json", label="JSON"), Choice(value="csv", label="CSV")),
        default="json",
        of=("kafka",),
        group=_FROM,
    ),
    Field(
        name="csv_columns",
        label="Columns of CSV values",
        help="Comma-separated.",
        chars_max=_COLUMNS_CHARS_MAX,
        of=("kafka",),
        group=_FROM,
    ),
    Field(
        name="begins",
        label="Start",
        choices=(
            Choice(value="earliest", label="first record"),
            Choice(value="offsets", label="offsets per partition"),
            Choice(value="time", label="time"),
        ),
        is_in_body=False,  # It chooses one of the next two.
        of=("kafka",),
        group=_FROM,
    ),
    Field(
        name="start",
        label="Offsets",
        help='earliest, or JSON: {"0": 17}.',
        chars_max=2000,
        of=("kafka",),
        group=_FROM,
    ),
    Field(
        name="start_at_ms",
        label="Time, UTC",
        help="Such as 2026-01-31 14:00.",
        type=FieldType.MOMENT,
        in_form="start_at",
        of=("kafka",),
        group=_FROM,
    ),
    *BROKER_SECURITY,
)
SOURCE: Final = Field(
    name="source",
    label="Source",
    help="An object with `kind`: csv, json, parquet, arrow, sql, kafka or postgresql.",
    type=FieldType.OBJECT,
    default=dict,
    is_first=True,
    in_form="",
    argument="",
    parts=[part if part.name in _LOADED else replace(part, argument="") for part in _PARTS],
)
MORE_OPTIONS: Final = Field(
    name="options",
    label="Options, one key=value a line",
    help="Options of writers.",
    type=FieldType.OPTIONS,
    default=LEFT_OUT,
    in_form="more",
    argument="",
    group=_INTO,
)
SPARK_CONF: Final = Field(
    name="spark_conf",
    label="Settings of Spark",
    help="Settings of this operation's Spark session.",
    type=FieldType.OPTIONS,
    default=LEFT_OUT,
    in_form="",
    argument="",
)
WRITE: Final = Description(
    name="write",
    purpose="Write the rows of one source into the table, such as "
    '`{"kind": "csv", "path": "/d/a.csv"}`. What deletes data needs a plan and a reason.',
    address="tables/{slug}/operations/",
    body="WriteRequest",
    call="write",
    answer="OperationDetail",
    permission=Permission.OPERATE,
    command="write",
    plan="OverwritePlan | ServicePlanView",
    fields=(
        SOURCE,
        Field(
            name="partitions",
            label="Partitions",
            help="Paths, for delete_partition.",
            type=FieldType.LIST,
            default=list,
            chars_max=1000,
            in_form="",
            argument="",
        ),
        Field(
            name="operation",
            label="Operation",
            help="Operations that delete data are services of the same name. Plan there, then "
            "request with plan_hash, reason and table_name.",
            default="upsert",
            choices=(
                Choice(value="upsert", label="Upsert: replace rows by key"),
                Choice(value="insert", label="Insert: add the rows"),
                Choice(value="bulk_insert", label="Bulk insert: add many rows, no key lookup"),
                Choice(value="delete", label="Delete rows by key", is_planned=True),
                Choice(
                    value="insert_overwrite",
                    label="Overwrite partitions",
                    is_planned=True,
                ),
                Choice(
                    value="insert_overwrite_table",
                    label="Overwrite table",
                    is_planned=True,
                ),
                Choice(value="delete_partition", label="Delete partitions", is_planned=True),
            ),
            group=_INTO,
        ),
        Field(
            name="stream",
            label="Stream",
            help="Only for tables with column groups.",
            chars_max=100,
            default=None,
            argument="",  # The command writes several at once: --streams.
            group=_INTO,
        ),
        MORE_OPTIONS,
        SPARK_CONF,
        replace(REASON, group=_INTO),
        replace(PLAN_HASH, in_form=""),
        replace(TABLE_NAME, in_form=""),
    ),
)
PLAN_OVERWRITE: Final = Description(
    name="write.plan",
    purpose="Plan an overwrite from a statement, a topic or JSON lines. Nothing is changed.",
    address="tables/{slug}/operations/plan/",
    body="OverwriteRequest",
    call="plan_overwrite",
    answer="OverwritePlan",
    permission=Permission.OPERATE,
    takes_key=False,
    fields=(
        replace(SOURCE, is_needed=True, help="As for the write.", parts=()),
        replace(
            WRITE["operation"],
            help="",
            is_needed=True,
            default="insert_overwrite_table",  # The client's default.
            choices=[
                choice
                for choice in WRITE["operation"].choices
                if choice.value.startswith("insert_overwrite")
            ],
        ),
    ),
)


PLANNED_OPERATIONS: Final = frozenset(
    choice.value for choice in WRITE["operation"].choices if choice.is_planned
)
"""Operations that take data away: services, with a plan and its hash."""


def part_names(kind: str) -> list[str]:
    """Return the keys of a source of this kind, in the order of its form."""
    return [part.name for part in list_parts(kind) if part.is_in_body]


def list_parts(kind: str) -> list[Field]:
    """Return the fields of a source of this kind, in the order of its form."""
    return [part for part in SOURCE.parts if not part.of or kind in part.of]
