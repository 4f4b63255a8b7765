"""Tables: register, create, change, unregister, and mask columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from controlplane.mirror.masking import MASKED_MAX
from controlplane.operations.descriptions.field import (
    LEFT_OUT,
    NEEDED_REASON,
    REASON,
    TABLE_NAME,
    Choice,
    Description,
    Field,
    FieldType,
)
from controlplane.operations.table_creation.definition import COLUMNS_MAX
from controlplane.tables.access import Permission
from controlplane.tables.models import COLUMN_CHARS_MAX, DEFAULT_NAMESPACE
from controlplane.tables.names import DESCRIPTION_CHARS_MAX, OWNER_CHARS_MAX, TAGS_CHARS_MAX

_NAME_CHARS_MAX: Final = 255
_KEY_COLUMNS_MAX: Final = 20
_LOCATION: Final = Field(
    "location",
    "Location",
    "An absolute path below a table root, or s3://bucket/prefix.",
    chars_max=700,
    is_needed=True,
    refusal="Enter the location of the table.",
    argument="location",
    is_first=True,
)
_SLUG: Final = Field(
    "slug",
    "Slug",
    "Used in addresses: a-z, 0-9 and dashes.",
    chars_max=64,
    is_needed=True,
    refusal="Enter a slug.",
    is_first=True,
)
_NAME: Final = Field("name", "Name", "Display name; the slug when empty.", chars_max=200)
_NAMESPACE: Final = Field(
    "namespace",
    "Namespace",
    "A group of tables; roles can be granted per namespace.",
    chars_max=64,
    default=DEFAULT_NAMESPACE,
    refusal="Enter a namespace.",
)
_PLACE: Final = (_LOCATION, _SLUG, _NAME, _NAMESPACE)
REGISTER_TABLE: Final = Description(
    name="table",
    purpose="Register the table at a location. The mirror reads it under its slug from then on.",
    address="tables/",
    body="Registration",
    call="register_table",
    answer="TableRow",
    permission=Permission.ADMINISTER,
    command="table register",
    takes_key=False,
    fields=_PLACE,
)
COLUMN: Final = Description(
    name="column",
    purpose="A column of a new table.",
    body="NewColumn",
    permission=Permission.ADMINISTER,
    fields=(
        Field("name", "Name", chars_max=_NAME_CHARS_MAX, is_needed=True),
        Field(
            "type",
            "Type",
            "As in CREATE TABLE: bigint, decimal(10,2), array<string>.",
            chars_max=500,
            is_needed=True,
        ),
        Field("required", "Required", type=FieldType.FLAG, default=False),
    ),
)
CREATE_TABLE: Final = Description(
    name="table.create",
    purpose="Create an empty table and register it.",
    address="new-tables/",
    body="Creation",
    call="create_table",
    answer="TableRow",
    permission=Permission.ADMINISTER,
    command="table create",
    fields=(
        *_PLACE,
        Field(
            "columns",
            "Columns",
            "Columns with their types.",
            type=FieldType.ROWS,
            item=COLUMN,
            is_needed=True,
            least=1,
            most=COLUMNS_MAX,
            chars_max=200_000,
            refusal="Enter at least one column with a type.",
            argument="--column",
        ),
        Field(
            "record_key",
            "Record key",
            "Columns that identify a row.",
            type=FieldType.NAMES,
            is_needed=True,
            least=1,
            most=_KEY_COLUMNS_MAX,
            chars_max=_NAME_CHARS_MAX,
            refusal="Enter the record key columns.",
        ),
        Field(
            "partition_by",
            "Partition columns",
            "Not partitioned when empty.",
            type=FieldType.NAMES,
            default=list,
            most=_KEY_COLUMNS_MAX,
            chars_max=_NAME_CHARS_MAX,
        ),
        Field(
            "ordering",
            "Ordering column",
            "For one key, the row with the highest value wins; the last commit when empty.",
            chars_max=_NAME_CHARS_MAX,
            may_be_blank=True,
        ),
        Field(
            "table_type",
            "Type",
            default="COPY_ON_WRITE",
            choices=(
                Choice("COPY_ON_WRITE", "copy on write: fast reads"),
                Choice("MERGE_ON_READ", "merge on read: fast writes"),
            ),
        ),
        Field(
            "groups",
            "Column groups",
            "JSON as in hoodie.multistream.groups, for tables that several streams write.",
            type=FieldType.LINES,
            chars_max=20_000,
            may_be_blank=True,
        ),
        replace(REASON, may_be_blank=True, in_form=""),
    ),
)
_CHANGED: Final = (
    _NAME,
    replace(_SLUG, help="Used in addresses; those with the former slug redirect."),
    _NAMESPACE,
    replace(_LOCATION, help="Where the table's directory was moved to."),
    Field("owner", "Owner", "Contact for questions.", chars_max=OWNER_CHARS_MAX, may_be_blank=True),
    Field(
        "tags",
        "Tags",
        "Words to filter by, separated by spaces; they replace the stored ones.",
        chars_max=TAGS_CHARS_MAX,
        may_be_blank=True,
    ),
    Field(
        "description",
        "Description",
        f"What the table holds, in one paragraph of at most {DESCRIPTION_CHARS_MAX} characters.",
        chars_max=DESCRIPTION_CHARS_MAX,
        may_be_blank=True,
    ),
)
CHANGE_TABLE: Final = Description(
    name="table.change",
    purpose="Change what is registered of a table. Values that are left out stay.",
    address="tables/{slug}/",
    method="PATCH",
    body="Change",
    call="change_table",
    answer="TableRow",
    permission=Permission.ADMINISTER,
    fields=(
        *(replace(field, is_needed=False, is_first=False, default=LEFT_OUT) for field in _CHANGED),
        NEEDED_REASON,
    ),
)
UNREGISTER_TABLE: Final = Description(
    name="table.unregister",
    purpose="Unregister a table. Its files stay. A person types `table_name`.",
    address="tables/{slug}/",
    method="DELETE",
    body="Unregistering",
    call="unregister_table",
    answer="Unregistered",
    permission=Permission.ADMINISTER,
    fields=(NEEDED_REASON, replace(TABLE_NAME, is_needed=True)),
)
MASK_COLUMNS: Final = Description(
    name="table.mask",
    purpose="Mask these columns of a table and no others.",
    address="tables/{slug}/masked-columns/",
    method="PUT",
    body="NewMask",
    call="mask_columns",
    answer="MaskedColumns",
    permission=Permission.ADMINISTER,
    command="table mask",
    takes_key=False,
    fields=(
        Field(
            "columns",
            "Columns",
            "All masked columns; fields of structs after dots.",
            type=FieldType.LIST,
            is_needed=True,
            chars_max=COLUMN_CHARS_MAX,
            most=MASKED_MAX,
            is_first=True,
            argument="columns",
        ),
        REASON,
    ),
)
