"""Each row names the one before it by its hash: whatever somebody changes, removes or puts between
is seen by walking along.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, connection, transaction

from controlplane.audit.actions import do_append_to_chain, do_record
from controlplane.audit.canonical import GENESIS_HASH, digest_of, link_hash
from controlplane.audit.chain_walk import Link, Problem, walk_chain
from controlplane.audit.models import AuditEvent, AuditHead
from controlplane.audit.verification import do_verify_round

Sql = Callable[..., None]
NOW = datetime(2026, 11, 23, 20, tzinfo=UTC)
EVENTS = "audit_auditevent"
CHANGED_TO = {
    "at": "2020-01-01 00:00:00.000001+00:00",
    "who": "mallory",
    "what": "service.archive",
    "object": "orders",
    "reason": "because not",
    "plan_hash": "cd34",
    "result": "requested",
    "request_id": "abcdef-12345",
    "details": '{"number": 3}',
    "version": 2,
    "digest": "0" * 64,
    "previous_hash": "1" * 64,
    "hash": "2" * 64,
    "id": 1_000,
}


def problem() -> Problem | None:
    return walk_chain(Link()).problem


def kind_and_place() -> tuple[str, int] | None:
    seen = problem()
    return None if seen is None else (seen.kind, seen.sequence)


def test_rows_stand_in_one_chain_that_anybody_can_check_by_the_documented_rule(
    chain: list[AuditEvent],
) -> None:
    previous = GENESIS_HASH
    for number, event in enumerate(chain, start=1):
        content = {
            "version": 1, "at": event.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "who": "ada",
            "what": "service.clean", "object": "trips", "reason": f"because {number - 1}",
            "plan_hash": "ab12", "result": "done", "request_id": event.request_id,
            "details": {"number": number - 1, "share": 1, "nested": [{"deep": 10**20}, None]},
        }  # fmt: skip
        digest = sha256(content)
        link = {
            "version": 1, "sequence": number, "previous_hash": previous, "id": event.pk,
            "digest": digest,
        }  # fmt: skip
        assert (event.sequence, event.digest) == (number, digest)
        assert (event.previous_hash, event.hash) == (previous, sha256(link))
        previous = event.hash

    head = AuditHead.objects.get()
    assert (head.sequence, head.hash) == (len(chain), previous)
    assert walk_chain(Link()).through == Link(len(chain), previous)
    assert problem() is None


def sha256(content: dict[str, object]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("column", CHANGED_TO)
def test_a_change_of_any_column_is_seen(column: str, chain: list[AuditEvent], sql: Sql) -> None:
    sql(f'UPDATE {EVENTS} SET "{column}" = %s WHERE sequence = 4', CHANGED_TO[column])

    assert kind_and_place() == ("changed", 4)


def test_every_column_is_tried() -> None:
    columns = {field.column for field in AuditEvent._meta.concrete_fields}

    assert columns == {*CHANGED_TO, "sequence"}


def test_a_changed_row_with_hashes_made_anew_is_seen_by_the_next_row_or_by_the_head(
    chain: list[AuditEvent], sql: Sql
) -> None:
    forge(chain[3], sql)
    in_the_middle = problem()
    forge(chain[5], sql)
    sql(f"DELETE FROM {EVENTS} WHERE sequence < 6")
    sql(f"UPDATE {EVENTS} SET previous_hash = %s WHERE sequence = 6", chain[4].hash)

    assert in_the_middle is not None
    assert (in_the_middle.kind, in_the_middle.sequence) == ("forked", 5)
    at_the_end = walk_chain(Link(5, chain[4].hash)).problem
    assert at_the_end is not None  # Its start is gone; what follows fits it.
    assert at_the_end.kind == "missing"


def test_a_newest_row_with_hashes_made_anew_is_seen_by_the_head(
    chain: list[AuditEvent], sql: Sql
) -> None:
    forge(chain[5], sql)

    assert kind_and_place() == ("head", 6)


def forge(event: AuditEvent, sql: Sql) -> None:
    """As somebody who knows the rule: another digest, and the hash that fits it."""
    digest = digest_of(
        at=event.at, who="mallory", what=event.what, subject=event.object, reason=event.reason,
        plan_hash=event.plan_hash, result=event.result, request_id=event.request_id,
        details=event.details,
    )  # fmt: skip
    forged = link_hash(
        sequence=event.sequence or 0,
        previous_hash=event.previous_hash,
        row_id=event.pk,
        digest=digest,
    )
    sql(
        f"UPDATE {EVENTS} SET who = 'mallory', digest = %s, hash = %s WHERE id = %s",
        digest,
        forged,
        event.pk,
    )


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["DELETE FROM {t} WHERE sequence = 3"], ("missing", 3)),
        (["DELETE FROM {t} WHERE sequence IN (1, 2)"], ("missing", 1)),
        (["DELETE FROM {t} WHERE sequence > 4"], ("missing", 5)),
        (["DELETE FROM {t}"], ("missing", 1)),
        (["UPDATE {t} SET sequence = NULL WHERE sequence = 3"], ("missing", 3)),
        (
            [
                "DELETE FROM {t} WHERE sequence = 3",
                "UPDATE {t} SET sequence = 3 WHERE sequence = 4",
                "UPDATE {t} SET sequence = 4 WHERE sequence = 5",
                "UPDATE {t} SET sequence = 5 WHERE sequence = 6",
            ],
            ("changed", 3),
        ),
        (
            [
                "UPDATE {t} SET sequence = 99 WHERE sequence = 2",
                "UPDATE {t} SET sequence = 2 WHERE sequence = 5",
                "UPDATE {t} SET sequence = 5 WHERE sequence = 99",
            ],
            ("changed", 2),
        ),
        (["DELETE FROM audit_audithead"], ("head", 0)),
        (["UPDATE audit_audithead SET sequence = 5"], ("head", 5)),
        (["UPDATE audit_audithead SET sequence = 7"], ("missing", 7)),
        (["UPDATE audit_audithead SET hash = 'x'"], ("head", 6)),
    ],
    ids=[
        "one gone", "the first gone", "the tail gone", "all gone", "one out of the chain",
        "one gone and the rest moved up", "two swapped", "no head", "an older head",
        "a head that nobody wrote", "another head",
    ],
)  # fmt: skip
def test_what_is_gone_or_swapped_is_seen(
    statements: list[str], expected: tuple[str, int], sql: Sql
) -> None:
    for statement in statements:
        sql(statement.format(t=EVENTS))

    assert kind_and_place() == expected


def test_a_row_behind_the_head_is_seen(chain: list[AuditEvent], sql: Sql) -> None:
    sql(copy_of(chain[5], "7"))

    assert kind_and_place() == ("inserted", 7)


def test_a_row_beside_another_of_its_number_is_seen(chain: list[AuditEvent], sql: Sql) -> None:
    if connection.vendor == "sqlite":
        # Its unique constraint is part of the table, so a copy without it takes its place.
        sql(f"CREATE TABLE copied AS SELECT * FROM {EVENTS}")
        sql(f"DROP TABLE {EVENTS}")
        sql(f"ALTER TABLE copied RENAME TO {EVENTS}")
    else:
        sql(f"ALTER TABLE {EVENTS} DROP CONSTRAINT audit_auditevent_sequence_key")
    sql(copy_of(chain[2], "sequence", new_id="id + 500"))

    assert kind_and_place() == ("inserted", 3)


def test_a_row_that_something_else_inserted_is_seen_once_it_is_in_the_chain(
    chain: list[AuditEvent], sql: Sql
) -> None:
    sql(copy_of(chain[5], "NULL", who="'mallory'"))

    do_append_to_chain()

    assert kind_and_place() == ("changed", 7)


def copy_of(event: AuditEvent, sequence: str, *, who: str = "who", new_id: str = "id + 700") -> str:
    others = "at, what, object, reason, plan_hash, result, request_id, details, version, digest"
    return (
        f"INSERT INTO {EVENTS} (id, who, sequence, previous_hash, hash, {others})"
        f" SELECT {new_id}, {who}, {sequence}, previous_hash, hash, {others}"
        f" FROM {EVENTS} WHERE id = {event.pk}"
    )


def test_a_head_that_is_gone_is_made_anew_where_the_chain_ends_and_hides_no_gap(
    chain: list[AuditEvent], sql: Sql
) -> None:
    sql("DELETE FROM audit_audithead")
    do_record(who="ada", what="service.clean", subject="trips", result="done")
    do_verify_round(NOW)
    without_head = walk_chain(Link())
    sql("DELETE FROM audit_audithead")
    sql(f"DELETE FROM {EVENTS} WHERE sequence > 4")
    do_record(who="ada", what="service.clean", subject="trips", result="done")
    do_append_to_chain()

    assert (without_head.problem, without_head.through.sequence) == (None, len(chain) + 1)
    assert kind_and_place() == ("missing", 5)


def test_the_database_refuses_to_change_and_to_remove(chain: list[AuditEvent]) -> None:
    event = chain[2]
    refused = [
        lambda: AuditEvent.objects.filter(pk=event.pk).update(who="mallory"),
        lambda: AuditEvent.objects.filter(pk=event.pk).update(sequence=None),
        lambda: AuditEvent.objects.filter(pk=event.pk).delete(),
        lambda: AuditEvent.objects.all().delete(),
        lambda: AuditEvent.objects.create(who="m", what="w", object="o", sequence=7),
        lambda: AuditHead.objects.update(sequence=3),
        lambda: AuditHead.objects.all().delete(),
        *([replace_the_newest] if connection.vendor == "sqlite" else [truncate]),
    ]

    for tamper in refused:
        with pytest.raises(IntegrityError, match="the audit is append-only"), transaction.atomic():
            tamper()

    assert problem() is None


def replace_the_newest() -> None:
    newest = AuditEvent.objects.latest("pk")
    with connection.cursor() as cursor:
        cursor.execute(copy_of(newest, "NULL", new_id="id").replace("INSERT", "INSERT OR REPLACE"))


def truncate() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {EVENTS}")


def test_a_waiting_row_enters_the_chain_and_nothing_else_of_it_changes(db: None) -> None:
    event = do_record(who="ada", what="x", subject="o", result="done")
    waiting = AuditEvent.objects.filter(pk=event.pk)

    with pytest.raises(IntegrityError), transaction.atomic():
        waiting.update(sequence=1, who="mallory")
    assert waiting.update(sequence=1, previous_hash=GENESIS_HASH, hash="3" * 64) == 1
