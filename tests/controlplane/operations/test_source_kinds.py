"""A kind of source that an app adds: writes may be asked for with it, and one that died is started
again as often as the kind allows, to write the rounds that are left.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from controlplane.errors import InvalidRequest
from controlplane.mirror.sync import sync_table
from controlplane.operations import source_kinds
from controlplane.operations.actions import do_reconcile, do_request_write
from controlplane.operations.models import Operation
from controlplane.operations.source_kinds import SourceKind, add_source_kind
from tests.controlplane.drivers import run_dead
from tests.controlplane.lake import Lake

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
LATER = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only files, until a test adds one."""
    files = {name: source_kinds._KINDS[name] for name in ("csv", "parquet")}
    monkeypatch.setattr(source_kinds, "_KINDS", files)


def start(lake: Lake, by: User, kind: str, **source: int) -> Operation:
    parameters = {"source": {"kind": kind, **source}}
    return do_request_write(table=lake.row, parameters=parameters, by=by)


def die(operation: Operation) -> str:
    run_dead(operation)
    do_reconcile(now=timezone.now() + LATER)
    operation.refresh_from_db()
    return operation.state


@pytest.mark.parametrize("kind", ["feed", "", "demo_stream", "x" * 5_000])
def test_kind_that_nobody_added_is_refused_with_those_that_there_are(
    lake: Lake, admin: User, kind: str
) -> None:
    with pytest.raises(InvalidRequest, match="source kind is unknown") as refused:
        start(lake, admin, kind)

    assert refused.value.values["known"] == ["csv", "parquet"]
    assert len(str(refused.value)) < 200
    assert not Operation.objects.exists()


def test_write_of_an_added_kind_that_died_is_started_again_as_often_as_it_says(
    lake: Lake, admin: User
) -> None:
    add_source_kind(SourceKind("feed", restarts_max=2))
    start(lake, admin, "feed", partition=7)

    states = [die(Operation.objects.latest("requested_at")) for _ in range(4)]

    runs = list(Operation.objects.order_by("requested_at"))
    assert states == ["failed"] * 4
    assert [run.parameters["restarts"] for run in runs] == [0, 1, 2]
    assert [run.parameters["job"]["source"]["partition"] for run in runs] == [7, 7, 7]


def test_it_is_not_started_again_for_somebody_who_may_not_ask_for_it_any_more(
    lake: Lake, operator: User
) -> None:
    add_source_kind(SourceKind("feed", restarts_max=2))
    operation = start(lake, operator, "feed")
    operator.groups.set([Group.objects.get(name="viewer")])

    assert die(operation) == "failed"
    assert Operation.objects.count() == 1


@pytest.mark.parametrize(("is_numbered", "state"), [(True, "failed"), (False, "succeeded")])
def test_one_commit_ends_a_write_unless_its_source_has_more_rounds(
    lake: Lake, admin: User, is_numbered: bool, state: str
) -> None:
    add_source_kind(SourceKind("feed", has_numbered_rounds=is_numbered))
    operation = start(lake, admin, "feed", rounds=3)
    lake.commit(OSLO, operation_id=str(operation.pk))
    sync_table(lake.row)

    assert die(operation) == state


def test_write_whose_kind_is_gone_is_settled_and_not_started_again(
    lake: Lake, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_source_kind(SourceKind("feed", has_numbered_rounds=True, restarts_max=2))
    operation = start(lake, admin, "feed", rounds=3)
    monkeypatch.delitem(source_kinds._KINDS, "feed")

    assert die(operation) == "failed"
    assert Operation.objects.count() == 1
