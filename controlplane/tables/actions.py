"""Registering a table, and taking it off the list. Neither touches a file."""

from __future__ import annotations

import re

from django.contrib.auth.models import Group, User
from django.db import transaction

from controlplane.accounts.roles import ADMIN
from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest
from controlplane.tables.locations import checked_location, overlap
from controlplane.tables.models import DEFAULT_NAMESPACE, Table

SLUG = re.compile(r"\A[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\Z")
NAME = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9 _.-]{0,199}\Z")


def do_register_table(
    *,
    location: str,
    slug: str,
    name: str = "",
    namespace: str = DEFAULT_NAMESPACE,
    by: User | None,
) -> Table:
    """A row for the table at `location`; the next sync fills in what the table says of itself.

    Raises InvalidRequest: grammar of slug, name and namespace, roots, a slug that is taken, a
    location that overlaps another table's.
    """
    if not SLUG.match(slug):
        raise InvalidRequest("a slug has lower-case letters, digits and dashes", slug=slug[:80])
    if not NAME.match(name or slug):
        raise InvalidRequest("the name has characters that are not allowed", name=name[:80])
    if not SLUG.match(namespace):
        raise InvalidRequest(
            "a namespace has lower-case letters, digits and dashes", namespace=namespace[:80]
        )
    resolved = checked_location(location)
    with transaction.atomic():
        # One registration at a time: SQLite transactions are immediate; elsewhere a row that
        # always exists queues them, since no lock holds back a table that is not there yet.
        Group.objects.select_for_update().get(name=ADMIN)
        others = list(Table.objects.all())
        if any(other.slug == slug for other in others):
            raise InvalidRequest("the slug is taken", slug=slug)
        for other in others:
            if overlap(other.location, resolved):
                raise InvalidRequest("the location overlaps a registered table", table=other.slug)
        table = Table.objects.create(
            location=resolved,
            slug=slug,
            name=name or slug,
            namespace=namespace,
            registered_by=by,
        )
        do_record(
            who=by.get_username() if by else "",
            what="table.register",
            subject=slug,
            result="done",
            details={"location": resolved, "namespace": namespace},
        )
    return table
