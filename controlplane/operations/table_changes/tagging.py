"""Add tags to several tables, or remove them: on all of the tables or on none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from controlplane.accounts.access_levels import ADMIN
from controlplane.errors import InvalidRequest
from controlplane.operations.ask import Requester
from controlplane.operations.requesting import Given
from controlplane.operations.table_changes.actions import TableChange, do_change_table
from controlplane.tables.access import Permission, may, visible_tables
from controlplane.tables.actions import registrations_held
from controlplane.tables.names import tags_in_order

TABLES_MAX = 100
LISTED_IN_REFUSAL_MAX = 10
"""Tables that a refusal names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedTables:
    """The tables of a request, by slug."""

    changed: list[str]
    unchanged: list[str]
    """Tables whose tags already were as the request wants them."""


def do_tag_tables(
    slugs: Sequence[str], *, add: str = "", remove: str = "", reason: str, by: User
) -> TaggedTables:
    """Change the tags, with an audit row for each table that changes.

    The same request again changes nothing.

    Raises InvalidRequest: no tag, the same tag in both, too many tables, unknown tables, tags that
    are too long together, no reason; PermissionDenied with the tables whose admin `by` is not.
    """
    new, old = set(tags_in_order(add).split()), set(tags_in_order(remove).split())
    if not new | old:
        raise InvalidRequest("select at least one tag to add or to remove")
    if both := sorted(new & old):
        raise InvalidRequest("a tag cannot be both added and removed", tags=" ".join(both))
    if not 0 < len(slugs) <= TABLES_MAX or len(set(slugs)) < len(slugs):
        raise InvalidRequest(f"select 1 to {TABLES_MAX} different tables", tables=len(slugs))
    changes: dict[str, list[str]] = {"changed": [], "unchanged": []}
    with registrations_held():
        tables = {table.slug: table for table in visible_tables(by).filter(slug__in=slugs)}
        if unknown := [slug for slug in slugs if slug not in tables]:
            first = ", ".join(slug[:64] for slug in unknown[:LISTED_IN_REFUSAL_MAX])
            raise InvalidRequest(f"table {first} not found", tables=unknown)
        not_administered = [
            slug for slug in slugs if not may(by, Permission.ADMINISTER, tables[slug])
        ]
        if not_administered:
            raise PermissionDenied(
                f"this requires the {ADMIN} role on {', '.join(not_administered)}"
            )
        for slug in slugs:
            table = tables[slug]
            tags = " ".join(sorted(set(table.tags.split()) - old | new))
            if tags == table.tags:
                changes["unchanged"].append(slug)
                continue
            change, why = TableChange(tags=tags), Given(reason=reason)
            try:
                do_change_table(table, change, by=Requester.person(by), given=why)
            except InvalidRequest as error:
                raise InvalidRequest(f"{slug}: {error.message}", **error.values) from error
            changes["changed"].append(slug)
    return TaggedTables(**changes)
