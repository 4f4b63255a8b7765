"""Registering a table. It touches no file.

What is done to a table that is registered (`operations/table_changes`) asks what runs on it first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from controlplane.accounts.roles import ADMIN
from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest
from controlplane.events import REGISTER, publish_change
from controlplane.tables.locations import checked_location, overlap
from controlplane.tables.models import DEFAULT_NAMESPACE, FormerSlug, Table
from controlplane.tables.names import check_name, check_namespace, check_slug


def do_register_table(
    *,
    location: str,
    slug: str,
    name: str = "",
    namespace: str = DEFAULT_NAMESPACE,
    by: User | None,
    who: str = "",
) -> Table:
    """A row for the table at `location`; the next sync fills in what the table says of itself.
    `who`: the name for the audit where `by` is None.

    Raises InvalidRequest: grammar of slug, name and namespace, roots, a slug that is taken, a
    location that overlaps another table's.
    """
    check_slug(slug)
    check_name(name or slug)
    check_namespace(namespace)
    resolved = checked_location(location)
    with registrations_held():
        check_slug_is_free(slug)
        check_no_overlap(resolved)
        take_slug(slug)
        table = Table.objects.create(
            location=resolved,
            slug=slug,
            name=name or slug,
            namespace=namespace,
            registered_by=by,
        )
        do_record(
            who=by.get_username() if by else who,
            what="table.register",
            subject=slug,
            result="done",
            details={"location": resolved, "namespace": namespace},
        )
        publish_change(REGISTER, "tables")
    return table


@contextmanager
def registrations_held() -> Iterator[None]:
    """A transaction in which nobody else registers, renames or relocates a table.

    SQLite transactions are immediate; elsewhere a row that always exists queues them, since no lock
    holds back a table that is not there yet. Raises InvalidRequest for what a constraint refuses
    all the same: somebody wrote into the database by another way.
    """
    try:
        with transaction.atomic():
            Group.objects.select_for_update().get(name=ADMIN)
            yield
    except IntegrityError as error:
        raise InvalidRequest(
            "another request registered the slug or the location at the same time: check "
            "the list of tables"
        ) from error


def check_slug_is_free(slug: str, *, but: Table | None = None) -> None:
    """Refuse, as InvalidRequest, the slug of another table than `but`. A former slug is free."""
    if _others(but).filter(slug=slug).exists():
        raise InvalidRequest("the slug is already used by another table", slug=slug)


def check_no_overlap(resolved: str, *, but: Table | None = None) -> None:
    """Refuse, as InvalidRequest, a location that is, holds or lies in that of another table."""
    for slug, location in _others(but).values_list("slug", "location"):
        if overlap(location, resolved):
            raise InvalidRequest(
                "the location overlaps a registered table", table=slug, location=resolved
            )


def take_slug(slug: str) -> None:
    """Addresses that led on from this slug to a table that had it before lead to its new owner."""
    FormerSlug.objects.filter(slug=slug).delete()


def _others(but: Table | None) -> QuerySet[Table]:
    return Table.objects.all() if but is None else Table.objects.exclude(pk=but.pk)
