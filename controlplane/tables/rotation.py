"""From one busy table to the next, for a screen that shows them in turn."""

from __future__ import annotations

from datetime import timedelta

from django.apps import apps
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from controlplane.tables.access import visible_tables
from controlplane.tables.models import Table

RECENT = timedelta(days=1)


def next_busy_table(
    user: AbstractBaseUser | AnonymousUser, after: str, namespace: str = ""
) -> Table | None:
    """The next table by slug, of those that `user` sees, that has a writer or lost a write within a
    day; behind the last comes the first. None where there is no other.
    """
    conflicts = apps.get_model("writers", "Conflict")._default_manager.filter(
        table=OuterRef("pk"), decided_at__gte=timezone.now() - RECENT
    )
    heartbeats = apps.get_model("mirror", "HeartbeatRecord")._default_manager.filter(
        table=OuterRef("pk")
    )
    busy = visible_tables(user).filter(Q(Exists(heartbeats)) | Q(Exists(conflicts)))
    if namespace:
        busy = busy.filter(namespace=namespace)
    others = busy.exclude(slug=after).order_by("slug")
    return others.filter(slug__gt=after).first() or others.first()
