"""Rebuild the register and the mirror from table storage alone, where no backup exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from django.conf import settings
from django.db.models import Count

from controlplane.audit.shell import get_acting_user, get_shell_user
from controlplane.errors import ControlPlaneError
from controlplane.mirror.sync import look
from controlplane.mirror.turns import given_back, take_turn
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import DEFAULT_NAMESPACE, Table
from workers.errors import LakehouseError
from workers.files.properties import load_properties
from workers.storage.base import Storage
from workers.storage.opener import open_storage
from workers.table_layout import HOODIE, PROPERTIES

LOST: Final = (
    "users, groups, roles, row access and API tokens",
    "the audit and its chain",
    "operations with their logs and approvals",
    "schedules, automatic services and approval rules",
    "alert rules, silences, channels and their messages",
    "connections and their secrets",
    "saved queries and the history of statements",
    "slugs, names, namespaces, owners, tags, descriptions and masked columns of tables",
    "rows, files and bytes of writes that were rolled back",
)
"""Facts that only the database has."""
_DEPTH_MAX: Final = 8
_NAME: Final = "hoodie.table.name"
_UNFIT: Final = re.compile(r"[^a-z0-9]+")
_SLUG_CHARS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class TableReport:
    """What became of one table directory."""

    location: str
    slug: str = ""
    problem: str = ""
    """Why it was not registered, or not read."""
    rows: dict[str, int] = field(default_factory=dict)


def restore_from_storage(namespace: str = DEFAULT_NAMESPACE) -> Iterator[TableReport]:
    """Register each table below the table roots that is not registered, and read it whole."""
    for root in settings.SLUICE_TABLE_ROOTS:
        storage = open_storage(root)
        registered = set(Table.objects.values_list("location", flat=True))
        for path in find_tables(storage):
            location = f"{root.rstrip('/')}/{path}"
            if location not in registered:
                yield _restore_table(location, namespace)


def find_tables(storage: Storage) -> Iterator[str]:
    """Yield the directories below the root that hold a table; one inside another one is its own."""
    waiting = [("", 0)]
    while waiting:
        directory, depth = waiting.pop()
        children = storage.list_directories(directory)
        if directory and f"{directory}/{HOODIE}" in children:
            if storage.info(f"{directory}/{PROPERTIES.path}") is not None:
                yield directory
            continue
        if depth < _DEPTH_MAX:
            visible = [child for child in children if not child.rpartition("/")[2].startswith(".")]
            waiting.extend((child, depth + 1) for child in reversed(visible))


def _restore_table(location: str, namespace: str) -> TableReport:
    try:
        name = load_properties(open_storage(location)).get(_NAME, "")
        row = do_register_table(
            location=location,
            slug=_free_slug(name or location.rpartition("/")[2]),
            namespace=namespace,
            by=get_acting_user(),
            who=get_shell_user(),
        )
    except (ControlPlaneError, LakehouseError) as error:
        return TableReport(location, problem=str(error))
    problem = _read_whole(row)
    counts = Table.objects.filter(pk=row.pk).aggregate(
        instants=Count("instants", distinct=True),
        conflicts=Count("conflicts", distinct=True),
        undone=Count("undone", distinct=True),
        schemas=Count("schemas", distinct=True),
    )
    return TableReport(location, row.slug, problem, counts)


def _read_whole(row: Table) -> str:
    """Read the table in as many passes as it takes; return why it cannot be read, or empty."""
    while (turn := take_turn(row)) is not None:
        with given_back(turn):
            looked = look(turn)
        if looked.is_whole or not looked.is_applied:
            return looked.error
    return "another process is reading the table: try again in a minute"


def _free_slug(name: str) -> str:
    slug = _UNFIT.sub("-", name.lower()).strip("-")[:_SLUG_CHARS_MAX].strip("-") or "table"
    used = set(Table.objects.filter(slug__startswith=slug).values_list("slug", flat=True))
    number = 1
    while (candidate := slug if number == 1 else f"{slug}-{number}") in used:
        number += 1
    return candidate
