"""Triggers of the database that reject changes and deletions of audit rows.

A row may enter the chain once, and nothing else in it may change; no row may be deleted; the number
of the head only grows. A user who may drop triggers can still do all of it: then the chain shows
the change.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

EVENTS, HEAD = "audit_auditevent", "audit_audithead"
REFUSAL = "the audit is append-only"
_CONTENT = (
    *("id", "at", "who", "what", "object", "reason", "plan_hash", "result"),
    *("request_id", "details", "version", "digest"),
)
_FUNCTION = f"""
CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '{REFUSAL}: % of %', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$
"""


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger: the statement that it rejects, and its condition."""

    name: str
    event: str
    table: str
    condition: str = ""
    """In SQL; empty to reject always."""

    def build_statement(self, vendor: str) -> str:
        head = f"CREATE TRIGGER {self.name} BEFORE {self.event} ON {self.table}"
        if vendor == "sqlite":
            when = f" WHEN {self.condition}" if self.condition else ""
            return f"{head}{when} BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        each = "STATEMENT" if self.event == "TRUNCATE" else "ROW"
        when = f" WHEN ({self.condition})" if self.condition else ""
        return f"{head} FOR EACH {each}{when} EXECUTE FUNCTION audit_refuse()"


def install(connection: BaseDatabaseWrapper) -> None:
    """Create missing triggers in SQLite and PostgreSQL; other databases get none."""
    missing = set(find_missing_triggers(connection))
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_FUNCTION)
        for guard in _list_triggers(connection.vendor):
            if guard.name in missing:
                _drop(connection, guard)
                cursor.execute(guard.build_statement(connection.vendor))


def remove(connection: BaseDatabaseWrapper) -> None:
    """Drop all triggers, for `manage.py flush`, which empties the whole database."""
    for guard in _list_triggers(connection.vendor):
        _drop(connection, guard)


def find_missing_triggers(connection: BaseDatabaseWrapper) -> list[str]:
    """Return the names of triggers that are missing or disabled."""
    guards = _list_triggers(connection.vendor)
    if not guards:
        return []
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        else:
            cursor.execute(
                "SELECT tgname FROM pg_trigger WHERE tgenabled IN ('O', 'A')"
                " AND tgrelid IN (to_regclass(%s), to_regclass(%s))",
                [EVENTS, HEAD],
            )
        there = {name for (name,) in cursor.fetchall()}
    return [guard.name for guard in guards if guard.name not in there]


def _drop(connection: BaseDatabaseWrapper, guard: Trigger) -> None:
    of_table = f" ON {guard.table}" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER IF EXISTS {guard.name}{of_table}")


def _list_triggers(vendor: str) -> list[Trigger]:
    if vendor == "sqlite":
        # REPLACE removes a row without its DELETE trigger.
        is_used = f"EXISTS (SELECT 1 FROM {EVENTS} WHERE id = NEW.id)"  # noqa: S608 - our own name
        entering = f"NEW.sequence IS NOT NULL OR {is_used}"
        return [
            Trigger("audit_event_insert", "INSERT", EVENTS, entering),
            *_list_common_triggers("IS"),
        ]
    if vendor == "postgresql":
        return [
            Trigger("audit_event_insert", "INSERT", EVENTS, "NEW.sequence IS NOT NULL"),
            Trigger("audit_event_truncate", "TRUNCATE", EVENTS),
            Trigger("audit_head_truncate", "TRUNCATE", HEAD),
            *_list_common_triggers("IS NOT DISTINCT FROM"),
        ]
    return []


def _list_common_triggers(same_as: str) -> list[Trigger]:
    """Return the triggers of both databases. The operator `same_as` treats two nulls as equal."""
    is_kept = " AND ".join(f'NEW."{name}" {same_as} OLD."{name}"' for name in _CONTENT)
    enters = f"OLD.sequence IS NULL AND NEW.sequence IS NOT NULL AND {is_kept}"
    return [
        Trigger("audit_event_update", "UPDATE", EVENTS, f"NOT ({enters})"),
        Trigger("audit_event_delete", "DELETE", EVENTS),
        Trigger("audit_head_update", "UPDATE", HEAD, "NEW.sequence <= OLD.sequence"),
        Trigger("audit_head_delete", "DELETE", HEAD),
    ]
