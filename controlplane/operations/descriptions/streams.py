"""Streams: declare one on a table with column groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from controlplane.operations.declaring import TYPES
from controlplane.operations.descriptions.field import (
    LEFT_OUT,
    NEEDED_REASON,
    TABLE_NAME,
    Choice,
    Description,
    Field,
    FieldType,
)
from controlplane.tables.access import Permission

_NAME_CHARS_MAX: Final = 200
DECLARE_STREAM: Final = Description(
    name="stream",
    purpose="Declare a stream: an entry of `hoodie.multistream.groups` with the types of its "
    "columns, all of which are new to the table. A person types `table_name`.",
    address="tables/{slug}/streams/",
    body="StreamDeclaration",
    call="declare_stream",
    answer="StreamsBoard",
    permission=Permission.ADMINISTER,
    takes_key=False,
    fields=(
        Field("name", "Name", chars_max=64, is_needed=True, is_first=True, refusal="Enter a name."),
        Field(
            "ordering",
            "Ordering column (new)",
            type=FieldType.LIST,
            chars_max=_NAME_CHARS_MAX,
            is_needed=True,
            least=1,
            most=8,
            refusal="Enter the column that orders the events of the stream.",
        ),
        Field(
            "ordering_type",
            "Type of the ordering column",
            default="timestamp",
            choices=[Choice(name) for name in TYPES],
            is_in_body=False,
        ),
        Field(
            "columns",
            "Columns",
            "New columns of the stream.",
            type=FieldType.LIST,
            chars_max=_NAME_CHARS_MAX,
            is_needed=True,
            least=1,
            most=400,
            refusal="Enter at least one column with a type.",
        ),
        Field(
            "types",
            "Types",
            "Types of the ordering and of the columns.",
            type=FieldType.OPTIONS,
            choices=[Choice(name) for name in TYPES],
            is_needed=True,
            in_form="",
        ),
        Field(
            "null_mode",
            "Null values",
            default=LEFT_OUT,
            choices=(Choice("overwrite", "erase the value"), Choice("keep", "leave the value")),
        ),
        Field(
            "on_late",
            "Late events",
            default=LEFT_OUT,
            choices=(Choice("ignore", "dropped"), Choice("overwrite", "win, as the later commit")),
        ),
        Field(
            "delete",
            "Deletes",
            default=LEFT_OUT,
            choices=(Choice("group", "columns of this stream"), Choice("row", "the whole row")),
        ),
        Field(
            "granularity",
            "Granularity",
            default=LEFT_OUT,
            choices=(Choice("group"), Choice("column")),
            in_form="",
        ),
        NEEDED_REASON,
        replace(TABLE_NAME, is_needed=True),
    ),
)
