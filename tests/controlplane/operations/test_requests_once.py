"""Every kind of operation is asked for through one function: who may, and that a key has one
effect, holds of all of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from controlplane.audit.models import AuditEvent
from controlplane.errors import KeyReused
from controlplane.mirror.models import InstantRecord
from controlplane.operations.aborts import AbortAsk
from controlplane.operations.actions import (
    do_request_abort,
    do_request_replay,
    do_request_rollback,
    do_request_service,
    do_request_write,
    do_start_sink,
    plan_rollback,
)
from controlplane.operations.kinds.kind import kinds
from controlplane.operations.kinds.replay import ReplayAsk
from controlplane.operations.kinds.rollback import RollbackAsk
from controlplane.operations.kinds.sink import SinkAsk
from controlplane.operations.kinds.table_service import ServiceAsk
from controlplane.operations.kinds.write import WriteAsk
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.controlplane.left_out import leave_out
from tests.controlplane.sink_jobs import OPTIONS
from tests.support.sinks import SINK

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
PENDING = "20990101000000000"
Ask = Callable[[Table, User, str, str], Operation]
"""Table, who asks, idempotency key, reason."""


def ask_write(table: Table, by: User, key: str, reason: str) -> Operation:
    parameters = {"source": {"kind": "csv", "path": "/data/weather.csv"}, "operation": "insert"}
    return do_request_write(
        table=table, parameters=parameters, by=by, reason=reason, idempotency_key=key
    )


def ask_rollback(table: Table, by: User, key: str, reason: str) -> Operation:
    newest = table.instants.filter(state="completed").latest("requested_at").requested_at
    plan_hash = plan_rollback(table, newest).plan_hash
    return do_request_rollback(table, newest, plan_hash, reason, table.slug, by, key)


def ask_abort(table: Table, by: User, key: str, reason: str) -> Operation:
    return do_request_abort(table, PENDING, reason=reason, by=by, idempotency_key=key)


def ask_compaction(table: Table, by: User, key: str, reason: str) -> Operation:
    return do_request_service(table, "compaction", {}, "", reason, "", by, key)


def ask_sink(table: Table, by: User, key: str, reason: str) -> Operation:
    options = {**OPTIONS, "hoodie.sink.id": "another"}
    return do_start_sink(table, options, by=by, reason=reason, idempotency_key=key)


def ask_replay(table: Table, by: User, key: str, reason: str) -> Operation:
    return do_request_replay(
        table, SINK, cause="not UTF-8", by=by, reason=reason, idempotency_key=key
    )


ASKS: Mapping[str, tuple[str, Ask, str]] = {
    "write": ("write", ask_write, "viewer"),
    "rollback": ("rollback", ask_rollback, "operator"),
    "abort": ("rollback", ask_abort, "viewer"),
    "service": ("service", ask_compaction, "viewer"),
    "sink": ("sink", ask_sink, "viewer"),
    "replay": ("replay", ask_replay, "operator"),
}
"""Each with the highest role that may not."""
each = pytest.mark.parametrize("name", ASKS)


@pytest.fixture
def table(lake: Lake, admin: User) -> Table:
    """Two commits, letters that a sink left out, and a write that is pending."""
    do_start_sink(lake.row, OPTIONS, by=admin)
    lake.commit(OSLO)
    leave_out(lake.row)
    InstantRecord.objects.create(
        table=lake.row, requested_at=PENDING, action="deltacommit", state="inflight"
    )
    return lake.row


@pytest.fixture
def second_admin(admin: User) -> User:
    other = User.objects.create_user("bea")
    other.groups.set(admin.groups.all())
    return other


def test_names_in_digests_stay_when_classes_are_renamed() -> None:
    requests = (AbortAsk, ReplayAsk, RollbackAsk, ServiceAsk, SinkAsk, WriteAsk)

    assert [request.request_name for request in requests] == [
        "AbortAsk",
        "ReplayAsk",
        "RollbackAsk",
        "ServiceAsk",
        "SinkAsk",
        "WriteAsk",
    ]


def test_stored_digest_has_the_name_of_the_request(table: Table, admin: User) -> None:
    body = {
        "ask": "AbortAsk",
        "table": table.pk,
        "body": {"instant": PENDING},
        "reason": "spring cleaning",
        "plan_hash": "",
    }
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

    assert ask_abort(table, admin, "k", "spring cleaning").request_digest == digest


def asked_for(what: Operation) -> int:
    return AuditEvent.objects.filter(result="requested", details__operation=str(what.pk)).count()


def test_every_kind_that_can_be_asked_for_is_tried_here() -> None:
    assert {kind for kind, _, _ in ASKS.values()} == set(kinds())


@each
def test_the_same_request_with_the_same_key_is_the_same_operation(
    name: str, table: Table, admin: User
) -> None:
    kind, ask, _ = ASKS[name]
    before = Operation.objects.count()

    first = ask(table, admin, "k", "spring cleaning")
    again = ask(table, admin, "k", "spring cleaning")

    assert (first.pk, first.kind) == (again.pk, kind)
    assert Operation.objects.count() == before + 1
    assert asked_for(first) == 1


@each
def test_another_request_with_the_same_key_is_refused_with_words(
    name: str, table: Table, admin: User
) -> None:
    _, ask, _ = ASKS[name]
    first = ask(table, admin, "k", "spring cleaning")

    for _, other, _ in ASKS.values():
        with pytest.raises(KeyReused, match="used for another request") as refused:
            other(table, admin, "k", "something else")
        assert refused.value.values["operation"] == str(first.pk)


@each
def test_a_key_belongs_to_the_person_who_used_it(
    name: str, table: Table, admin: User, second_admin: User
) -> None:
    _, ask, _ = ASKS[name]
    first = ask(table, admin, "k", "spring cleaning")
    Operation.objects.filter(pk=first.pk).update(state="failed")

    theirs = ask(table, second_admin, "k", "spring cleaning")

    assert theirs.pk != first.pk
    assert theirs.requested_by == second_admin


@each
def test_a_role_that_may_not_is_refused_before_anything_is_stored(
    name: str, table: Table, viewer: User, operator: User
) -> None:
    _, ask, role = ASKS[name]
    person = {"viewer": viewer, "operator": operator}[role]
    before = Operation.objects.count()

    with pytest.raises(PermissionDenied):
        ask(table, person, "k", "spring cleaning")

    assert Operation.objects.count() == before


def test_a_write_with_other_rows_under_the_same_key_is_refused(table: Table, admin: User) -> None:
    how: dict[str, Any] = {"table": table, "by": admin, "idempotency_key": "k"}
    do_request_write(parameters={"source": {"kind": "csv", "path": "/data/a.csv"}}, **how)

    with pytest.raises(KeyReused):
        do_request_write(parameters={"source": {"kind": "csv", "path": "/data/b.csv"}}, **how)
