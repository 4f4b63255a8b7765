"""Roles and row access: grant."""

from __future__ import annotations

from typing import Final

from controlplane.accounts.access_levels import GRANTED
from controlplane.operations.descriptions.field import (
    REASON,
    Choice,
    Description,
    Field,
    FieldType,
)
from controlplane.tables.access import Permission

_NAME_CHARS_MAX: Final = 150
_PLACES: Final = (
    Field("user", "User", "User name.", chars_max=_NAME_CHARS_MAX),
    Field("group", "or group", "User group.", chars_max=_NAME_CHARS_MAX),
    Field("namespace", "Namespace", "Applies to all its tables.", chars_max=64),
    Field("table", "or table", "Slug of one table.", chars_max=64),
)
GRANT: Final = Description(
    name="grant",
    purpose="Grant a role to a user or a group, in a namespace or on a table. It replaces the role "
    "granted there before.",
    address="grants/",
    body="NewGrant",
    call="grant",
    answer="GrantRow",
    permission=Permission.ADMINISTER,
    command="grant give",
    takes_key=False,
    fields=(
        Field(
            "role",
            "Role",
            choices=[Choice(role) for role in GRANTED],
            is_needed=True,
            is_first=True,
            argument="role",
        ),
        *_PLACES,
        REASON,
    ),
)
GRANT_ROWS: Final = Description(
    name="grant.rows",
    purpose="Grant row access to a user or a group, in a namespace, on a table or everywhere. It "
    "replaces the access granted there before.",
    address="row-grants/",
    body="NewRowGrant",
    call="grant_rows",
    answer="RowGrantRow",
    permission=Permission.ADMINISTER,
    command="grant give",
    takes_key=False,
    fields=(
        Field(
            "right",
            "Access",
            "rows: without masked columns; masked: with them.",
            choices=(
                Choice("rows", "reads rows"),
                Choice("masked", "row access with masked columns"),
            ),
            is_needed=True,
            is_first=True,
            argument="role",
        ),
        *_PLACES,
        Field("everywhere", "or all tables", "All tables.", type=FieldType.FLAG, default=False),
        REASON,
    ),
)
