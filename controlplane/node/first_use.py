"""What a node needs before its processes start: database, static files, roles, two users.

Every step may run again: what is there already stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from django.contrib.auth.models import Group, User
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command

from controlplane.accounts.roles import ADMIN, VIEWER
from controlplane.node.migrating import migrate
from controlplane.node.places import Places
from controlplane.node.secrets_file import NodeSecrets

UNUSED_STATIC = ["redoc"]
"""The API's second viewer, which no page offers."""


def prepare(places: Places, secrets: NodeSecrets, note: Callable[[str], object]) -> None:
    """Bring database, static files, roles and users up to date. Raises HomeTooOld."""
    migrate()
    note("  database migrated")
    collect_static(places, note)
    users(secrets)
    note("  users admin and viewer are there")


def collect_static(places: Places, note: Callable[[str], object]) -> None:
    """Copy and compress, unless nothing changed since the last time."""
    stamp, fresh = places.static / ".collected", static_fingerprint()
    if stamp.is_file() and stamp.read_text() == fresh:
        return
    note("  collecting static files (some seconds, once)")
    call_command("collectstatic", interactive=False, verbosity=0, ignore_patterns=UNUSED_STATIC)
    stamp.write_text(fresh)


def static_fingerprint() -> str:
    """A hash of every file's name, size and time: reading them all would take as long as
    collecting.
    """
    digest = hashlib.sha256()
    for finder in get_finders():
        for name, storage in sorted(finder.list([]), key=lambda listed: str(listed[0])):
            status = Path(storage.path(name)).stat()
            digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def users(secrets: NodeSecrets) -> None:
    """One admin and one viewer. A password is set once; who changes it keeps the change."""
    _user("admin", secrets.admin_password, ADMIN)
    _user("viewer", secrets.viewer_password, VIEWER)


def login_line(secrets: NodeSecrets) -> str:
    """What to type at the login page; the password only while it is still the one that was made
    here.
    """
    admin = User.objects.filter(username="admin").first()
    if admin is None or not admin.check_password(secrets.admin_password):
        return "user admin, with the password that it was given"
    return f"user admin, password {secrets.admin_password}"


def _user(name: str, password: str, role: str) -> None:
    group, _ = Group.objects.get_or_create(name=role)
    user, is_new = User.objects.get_or_create(username=name)
    if is_new:
        user.set_password(password)
        user.save(update_fields=["password"])
    user.groups.add(group)
