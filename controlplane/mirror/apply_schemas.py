"""The history of a table's schema, from what its instants carry to rows, inside the sync's
transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from controlplane.mirror.facts import InstantFacts, instant_facts, key_of, normal_schema
from controlplane.mirror.models import InstantRecord, SchemaRecord, SyncMark
from controlplane.tables.models import Table
from workers.errors import MalformedTable
from workers.table import table as engine
from workers.timeline.instant import Action, CompletedInstant, State

_SCHEMAS_REMEMBERED = 64


def may_change_schemas(facts: InstantFacts, newest: SchemaRecord | None) -> bool:
    """A later commit with the newest schema again changes nothing, and is what nearly all are."""
    if facts.schema_json is None:
        return False
    is_later = newest is not None and (facts.instant.completed_at or "") > newest.completed_at
    fingerprint = fingerprint_of(facts).get("schema_fingerprint")
    return not is_later or newest is None or fingerprint != newest.fingerprint


def fingerprint_of(facts: InstantFacts) -> dict[str, str]:
    """What an instant's metadata says of its schema; empty where it carries none."""
    if facts.schema_json is None:
        return {}
    name, text = _fingerprint(facts.schema_json)
    return {name: text}


@lru_cache(maxsize=_SCHEMAS_REMEMBERED)
def _fingerprint(schema_json: str) -> tuple[str, str]:
    """Nearly all commits of a table carry the same text."""
    try:
        return "schema_fingerprint", normal_schema(schema_json)[1]
    except MalformedTable:
        return "error", "its schema cannot be read"


def rebuild_schemas(
    table: Table, mark: SyncMark, opened: engine.Table, read: Sequence[InstantFacts]
) -> None:
    """Store the chain of schemas in completion order, from the fingerprints that the instants
    carry. Storage is only read for instants that are not among `read`.
    """
    facts_by_key = {key_of(facts.instant): facts for facts in read}
    chain: list[tuple[str, str]] = []
    writers: dict[str, tuple[str, str, str]] = {}
    rows = (
        InstantRecord.objects.filter(
            table=table,
            state=State.COMPLETED.value,
            metadata__has_key="schema_fingerprint",
        )
        .order_by("completed_at", "requested_at")
        .values_list(
            "requested_at", "action", "completed_at", "writer_name", "metadata__schema_fingerprint"
        )
    )
    for requested_at, action, completed_at, writer, fingerprint in rows.iterator():
        if fingerprint and (not chain or chain[-1][1] != fingerprint):
            chain.append((requested_at, fingerprint))
            writers[requested_at] = (action, completed_at or "", writer)
    schemas = mark.stored(SchemaRecord.objects.filter(table=table))
    stored = dict(schemas.values_list("instant", "fingerprint"))
    if stored == dict(chain):
        return
    gone = [instant for instant in stored if dict(chain).get(instant) != stored[instant]]
    schemas.filter(instant__in=gone).delete()
    for instant, fingerprint in chain:
        if stored.get(instant) == fingerprint:
            continue
        action, completed_at, writer = writers[instant]
        facts = facts_by_key.get((instant, action)) or instant_facts(
            opened, CompletedInstant(instant, Action(action), State.COMPLETED, completed_at), None
        )
        if facts is None or facts.schema_json is None:
            continue  # It went away since; the listing that says so is already on its way.
        avro, _ = normal_schema(facts.schema_json)
        SchemaRecord.objects.create(
            table=table,
            instant=instant,
            completed_at=completed_at,
            writer_name=writer,
            avro=avro,
            fingerprint=fingerprint,
            columns=len(avro["fields"]),
        )
