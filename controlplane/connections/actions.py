"""Change connections, for admins. Every change is in the audit, without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction
from django.http import Http404
from django.utils import timezone

from controlplane.audit.actions import do_record
from controlplane.connections.models import NAME_CHARS_MAX, Connection, ConnectionGrant
from controlplane.connections.probes import find_problem
from controlplane.connections.queries import (
    ConnectionRow,
    check_admin,
    connection_row,
    connection_settings,
    find_uses,
)
from controlplane.encryption import CONNECTIONS
from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.tables.names import check_namespace
from workers import connections as engine
from workers.errors import InvalidInput

CONNECTIONS_MAX: Final = 200
NAMESPACES_MAX: Final = 200
SETTINGS_BYTES_MAX: Final = 100_000
"""As JSON, secrets included: a driver receives them in one variable of its environment."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_FREE: Final = frozenset({"username", "access_key_id", "prefix"})
"""Settings that do not decide where, or how well protected, a secret is sent."""
_PROBLEM_CHARS_MAX: Final = 500
_USES_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionWish:
    """A connection as an admin wants it."""

    name: str
    kind: str
    settings: Mapping[str, Any]
    """All of them but the secrets; empty texts stand for absent settings."""
    secrets: Mapping[str, str] | None = field(default=None, repr=False)
    """All of them; None in a change: those that are stored stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTest:
    """What a test of a connection found."""

    is_reached: bool
    problem: str
    """Empty where it was reached."""


def do_create_connection(wish: ConnectionWish, *, by: User) -> ConnectionRow:
    """Store a connection. No namespace may use it yet.

    Raises PermissionDenied, and InvalidRequest for invalid settings and a name that is taken.
    """
    check_admin(by)
    if not _NAME.fullmatch(wish.name):
        raise InvalidRequest(
            "a connection's name must be lower-case letters, digits, dots, dashes and underscores, "
            f"at most {NAME_CHARS_MAX}",
            name=wish.name[:80],
        )
    fields = _columns(wish.kind, wish.settings, wish.secrets or {})
    with transaction.atomic():
        if Connection.objects.count() >= CONNECTIONS_MAX:
            raise InvalidRequest(f"there are {CONNECTIONS_MAX} connections; delete one first")
        if Connection.objects.filter(name=wish.name).exists():
            raise InvalidRequest("another connection already has this name", name=wish.name)
        connection = Connection.objects.create(
            name=wish.name,
            kind=wish.kind,
            created_by=by.get_username(),
            changed_by=by.get_username(),
            changed_at=timezone.now(),
            **fields,
        )
        _record(by, "connection.create", connection, secrets=connection.secret_names)
    return connection_row(by, wish.name)


def do_change_connection(wish: ConnectionWish, *, by: User) -> ConnectionRow:
    """Replace the settings of the connection of this name; running jobs keep the ones they have.

    A change of the address, or of how the connection is protected, needs the secrets again, so that
    no admin can send a stored secret elsewhere. Raises PermissionDenied, Http404, InvalidRequest.
    """
    check_admin(by)
    with transaction.atomic():
        connection = _lock_connection(wish.name)
        if wish.kind != connection.kind:
            raise InvalidRequest(
                "the kind of a connection cannot change: create another connection",
                kind=connection.kind,
            )
        secrets = _load_secrets(connection) if wish.secrets is None else wish.secrets
        fields = _columns(wish.kind, wish.settings, secrets)
        before, after = connection.settings, fields["settings"]
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        moved = [name for name in changed if name not in _FREE]
        if moved and wish.secrets is None and connection.secret_names:
            raise InvalidRequest(
                "secrets must be entered again, because they would be sent to another address",
                changed=moved,
                secrets=connection.secret_names,
            )
        for name, content in fields.items():
            setattr(connection, name, content)
        connection.changed_by, connection.changed_at = by.get_username(), timezone.now()
        connection.tested_at, connection.tested_by, connection.test_problem = None, "", ""
        connection.save()
        _record(
            by,
            "connection.change",
            connection,
            changed=changed,
            secrets=connection.secret_names,
            has_new_secrets=wish.secrets is not None,
        )
    return connection_row(by, wish.name)


def do_delete_connection(name: str, *, by: User) -> None:
    """Delete the connection with its grants.

    Raises PermissionDenied, Http404, and NotAllowedNow, which names them, while schedules or open
    operations use it.
    """
    check_admin(by)
    with transaction.atomic():
        connection = _lock_connection(name)
        if uses := find_uses(connection):
            raise NotAllowedNow(
                "the connection is in use: stop or change its users first",
                used_by=uses[:_USES_SHOWN],
                count=len(uses),
            )
        _record(by, "connection.delete", connection)
        connection.delete()


def do_grant_connection(name: str, namespaces: list[str], *, by: User) -> ConnectionRow:
    """Let tables of these namespaces use the connection, and those of no others.

    Running jobs continue; waiting ones are refused as they begin. Raises PermissionDenied,
    Http404, InvalidRequest.
    """
    check_admin(by)
    requested = set(namespaces)
    if len(requested) > NAMESPACES_MAX:
        raise InvalidRequest(f"a connection is granted to at most {NAMESPACES_MAX} namespaces")
    for namespace in sorted(requested):
        check_namespace(namespace)
    with transaction.atomic():
        connection = _lock_connection(name)
        granted = set(connection.grants.values_list("namespace", flat=True))
        if requested == granted:
            return connection_row(by, name)
        connection.grants.filter(namespace__in=granted - requested).delete()
        ConnectionGrant.objects.bulk_create(
            ConnectionGrant(
                connection=connection, namespace=namespace, granted_by=by.get_username()
            )
            for namespace in sorted(requested - granted)
        )
        _record(
            by,
            "connection.grant",
            connection,
            given=sorted(requested - granted),
            taken=sorted(granted - requested),
        )
    return connection_row(by, name)


def do_test_connection(name: str, *, by: User) -> ConnectionTest:
    """Connect with the stored settings, and store what became of it. Takes at most 15 s.

    Raises PermissionDenied, Http404.
    """
    check_admin(by)
    connection = Connection.objects.filter(name=name).first()
    if connection is None:
        raise _missing()
    problem = find_problem(connection)[:_PROBLEM_CHARS_MAX]
    with transaction.atomic():
        # The result does not count for settings that were changed during the test.
        Connection.objects.filter(pk=connection.pk, changed_at=connection.changed_at).update(
            tested_at=timezone.now(), tested_by=by.get_username(), test_problem=problem
        )
        _record(by, "connection.test", connection, is_reached=not problem)
    return ConnectionTest(is_reached=not problem, problem=problem)


def _columns(kind: str, settings: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns of these settings. Raises InvalidRequest if the engine refuses them."""
    names = set(engine.SECRETS.get(kind, ()))
    if misplaced := sorted({*settings} & names | {*secrets} - names):
        raise InvalidRequest(
            "secrets must be passed in `secrets`, not in the settings", setting=misplaced[0][:40]
        )
    try:
        checked = engine.connection_from_json(kind, {**settings, **secrets})
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
    values = {key: value for key, value in engine.connection_to_json(checked).items() if value}
    secret_values = {key: value for key, value in values.items() if key in names}
    if len(json.dumps(values)) > SETTINGS_BYTES_MAX:
        raise InvalidRequest(
            f"the settings of a connection have at most {SETTINGS_BYTES_MAX} bytes: pass "
            "only the certificates of its own authority"
        )
    return {
        "settings": {key: value for key, value in values.items() if key not in names},
        "sealed_secrets": CONNECTIONS.close(json.dumps(secret_values)) if secret_values else "",
        "secret_names": sorted(secret_values),
        "shown_address": checked.shown_address[:500],
    }


def _load_secrets(connection: Connection) -> dict[str, str]:
    settings = connection_settings(connection)
    return {name: str(settings[name]) for name in connection.secret_names}


def _lock_connection(name: str) -> Connection:
    connection = Connection.objects.select_for_update().filter(name=name).first()
    if connection is None:
        raise _missing()
    return connection


def _missing() -> Http404:
    return Http404("no connection has this name")


def _record(by: User, what: str, connection: Connection, **details: object) -> None:
    do_record(
        who=by.get_username(),
        what=what,
        subject=connection.name,
        result="done",
        details={"kind": connection.kind, "address": connection.shown_address, **details},
    )
