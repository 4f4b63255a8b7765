"""Threat T12: values that stand in rows reach nobody who may not read them, by whichever address.

A table is made whose rows, keys, dead letters, conflicts, commits, operations and logs hold values
that stand nowhere else. Every address that there is comes from the URL resolver, pages and API
alike, and is looked through for them; a new address is looked through from the day it is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from controlplane.accounts.models import Grant
from controlplane.audit.models import AuditEvent
from controlplane.mirror.models import InstantRecord, SinkRecord
from controlplane.mirror.streams import measure
from controlplane.mirror.sync import sync_table
from controlplane.monitoring.models import Alert
from controlplane.operations.actions import (
    do_request_service,
    do_request_write,
    do_start_sink,
    plan_service,
)
from controlplane.operations.models import LogLine, Operation, ScheduleRun
from controlplane.operations.moves import move
from controlplane.operations.states import OperationState
from controlplane.tables.actions import do_register_table
from controlplane.tables.masks import MASK
from controlplane.tables.models import MaskedColumn, RowGrant, Table
from controlplane.writers.models import Conflict
from tests.controlplane import left_out
from tests.controlplane.api.test_permissions import CASES
from tests.controlplane.approvals import needs_approval
from tests.controlplane.sink_jobs import OPTIONS
from tests.security.filled_requests import FILLED, PREDICATE, READS_NO_ROWS, SQL
from tests.security.test_tables_of_others import OF_NO_TABLE, PARTS, Address, addresses
from tests.support.joined import commit, make
from tests.support.role_places import undone
from tests.support.schedules import nightly
from tests.support.sinks import SINK
from tests.web.test_page_roles import table_of
from web.pages import sinks, streams
from workers.sink.batch import BadRecord

KEY, LATE_KEY = "canary-of-the-key", "canary-of-the-late-key"
OPEN_MS, MASKED_MS = 1_777_636_812_345, 1_777_723_267_891
"""Ordering values of two columns, of which one is masked."""
OPEN_TIME, MASKED_TIME = "2026-05-01T12:00:12", "2026-05-02T12:01:07"
LETTER, LOGGED, CHOSEN, EXTRA = "letter-canary", "log-canary", "choice-canary", "extra-canary"
FAILED, SUNK, TURNED = "message-canary", "sink-canary", "turn-canary"
IN_ROWS = {KEY, LATE_KEY, str(OPEN_MS), OPEN_TIME}
"""Of columns that are not masked."""
BEHIND_MASKS = {
    *(str(MASKED_MS), MASKED_TIME, LETTER, LOGGED, CHOSEN, EXTRA),
    *(FAILED, SUNK, TURNED),
}
"""Of the masked column; and what may be of any column, as far as anybody knows."""
ALL_PARTS: dict[str, tuple[str, ...]] = {
    "live-part": ("writers", "figures", "streams", "markers", "operations", "conflicts", "undone"),
    "sinks-part": sinks.PARTS,
    "streams-part": streams.PARTS,
}
"""Of addresses with parts those that may show rows; of the others one part is tried."""
OF_ONE_ROW = ("api:row_history", "data-row-versions")
BEFORE_ALL = "20200101000000000"
DOORS = {
    *("api:conflict", "api:conflicts", "conflict", "conflict-part"),
    *("api:instant", "timeline", "timeline-instant"),
    *("api:operation", "operation", "operation-state"),
    *("api:operation_log", "api:operation_log_download", "operation-log", "operation-log-download"),
    *("api:sink_letter", "sinks"),
    *("api:stream_cell", "api:stream_commits", "api:streams", "api:streams_join"),
    *("live", "live-part", "live-parts", "overview", "streams", "streams-part", "streams-why"),
    *("api:rows", "api:rows_export", "api:row_history", "api:row_differences"),
    *("api:instant_changes", "data-rows", "data-export", "data-row-versions"),
    *("data-changes-rows", "data-compare-rows"),
    # Sample rows of plans.
    *("service", "api:service_plan"),
    # Messages.
    *("api:operations", "api:table_operations", "operations", "operations-export"),
    *("operations-rows", "api:home", "home", "home-part"),
    *("api:sink", "api:sinks", "api:sink_stop", "api:sink_trace", "api:sink_transactions"),
    "sinks-part",
    *("api:schedule", "api:schedule_runs", "api:schedules", "api:table_schedules"),
    *("schedule", "schedules", "schedules-rows"),
    *("api:sql", "sql", "sql-export", "api:operation_cancel"),
}
"""Every address that shows values of rows to whoever may see them."""


@pytest.fixture
def watched(root: Path, admin: User, monkeypatch: pytest.MonkeyPatch) -> Table:
    """The table that holds all these values, with `ship_ts` masked."""
    bad = BadRecord(7, LETTER.encode(), LETTER.encode(), f"not JSON: why={LETTER}")
    monkeypatch.setattr(left_out, "BAD", (bad,))
    lake = make(root)
    commit(lake, {"id": KEY, "shop_ts": OPEN_MS, "price": 1.0})
    commit(lake, {"id": LATE_KEY, "ship_ts": MASKED_MS, "road": "x"})
    table = do_register_table(location=lake.location, slug="orders", by=admin)
    left_out.leave_out(table)
    sync_table(table)
    table.refresh_from_db()
    measure(table)
    MaskedColumn.objects.create(table=table, path="SHIP_TS")
    for record in InstantRecord.objects.filter(table=table, metadata__has_key="groups"):
        for facts in record.metadata["groups"].values():
            facts["late_key"] = LATE_KEY
        record.metadata["extra"]["deltastreamer.checkpoint"] = EXTRA
        record.save()
    for sink in SinkRecord.objects.filter(table=table):
        sink.reason = f"ArrowInvalid: could not convert {SUNK}"
        sink.transactions = [{**one, "reason": sink.reason} for one in sink.transactions]
        sink.trace = [{**one, "detail": sink.reason} for one in sink.trace]
        sink.save()
    newest = table.instants.order_by("-requested_at")[0].requested_at
    Conflict.objects.create(
        table=table,
        loser_instant=newest,
        loser_writer="w",
        winner_instant=newest,
        kind="write",
        message=f"met: first_keys={[KEY]}",
        file_groups=[],
        overlap=0,
        detected="commit",
        details={"rule": "inserted_twice", "keys": [KEY], "key_count": 1},
        decided_at=timezone.now(),
    )
    return table


@pytest.fixture
def operation(watched: Table, admin: User) -> Operation:
    """A delete of rows that failed over a value, and logged it."""
    made = Operation.objects.create(
        table=watched,
        kind="service",
        service="delete",
        state="running",
        requested_by=admin,
        parameters={"job": {"by": "ada", "parameters": {"predicate": f"road = '{CHOSEN}'"}}},
        plan={"items": [], "item_count": 0, "summary": "delete 1 rows"},
    )
    move(made.pk, OperationState.FAILED, message=f"ArrowInvalid: could not convert {FAILED}")
    LogLine.objects.create(
        operation=made,
        at=timezone.now(),
        level=40,
        source="w",
        message=LOGGED,
        host="h",
        number=1,
        attempt=0,
    )
    return made


@pytest.fixture
def known(
    watched: Table, operation: Operation, admin: User, tmp_path: Path, settings: Settings
) -> dict[str, str]:
    """What addresses and bodies are made of."""
    drop = tmp_path / "drop"
    drop.mkdir()
    (drop / "new.csv").write_text("id,shop_ts,price\nx,1,1.5\n")
    settings.SLUICE_SOURCE_ROOTS = (f"{watched.namespace}={drop}",)
    do_start_sink(watched, OPTIONS, by=admin)
    chosen = {"predicate": f"road = '{CHOSEN}' OR {PREDICATE}"}
    needs_approval("delete", watched)
    waiting = do_request_service(
        watched, "delete", chosen, plan_service(watched, "delete", chosen, admin).plan_hash,
        "a test", watched.slug, admin,
    )  # fmt: skip
    ended = do_request_write(table=watched, parameters={"source": SQL}, by=admin)
    Operation.objects.filter(pk=ended.pk).update(state="succeeded")
    wanted = {"predicate": PREDICATE}
    now = timezone.now()
    alert = Alert.objects.create(
        table=watched,
        check_name="mirror",
        verdict="bad",
        sentence="s",
        unwell_at=now,
        fired_at=now,
    )
    left = watched.instants.filter(sink=SINK).get().requested_at
    schedule = nightly(watched, admin, str(drop / "new.csv"))
    ScheduleRun.objects.create(
        schedule=schedule,
        turn="1",
        due_at=now,
        outcome="not_run",
        words=f"ArrowInvalid: could not convert {TURNED}",
    )
    file_group = watched.file_groups.first()
    assert file_group is not None
    return {
        "slug": watched.slug,
        "later": str(watched.instants.latest("completed_at").completed_at),
        "instant": Conflict.objects.get(table=watched).loser_instant,
        "requested_at": left,
        "operation_id": str(operation.pk),
        "approval_id": str(waiting.pk),
        "waiting_id": str(waiting.pk),
        "waiting_hash": waiting.plan_hash,
        "ended_id": str(ended.pk),
        "file": str(drop / "new.csv"),
        "newest": watched.instants.latest("requested_at").requested_at,
        "plan_hash": plan_service(watched, "delete", wanted, admin).plan_hash,
        "sink_id": SINK,
        "file_id": file_group.file_id,
        "service": "delete",
        **OF_NO_TABLE,
        "event_id": str(AuditEvent.objects.order_by("-pk")[0].pk),
        "schedule_id": str(schedule.pk),
        "alert_id": str(alert.pk),
    }


@pytest.fixture
def reader(watched: Table) -> User:
    """An operator of the table, who may not read its rows until a test lets him."""
    person = User.objects.create_user("rhea")
    Grant.objects.create(user=person, table=watched, role="operator", granted_by="a test")
    return person


def questions(address: Address, known: Mapping[str, str], instants: list[str]) -> list[str]:
    """What is asked of an address, besides nothing at all."""
    if not address.is_of_table:
        return [""]
    if address.name in OF_ONE_ROW:
        return [f"?key={KEY}"]
    if address.name in ("api:row_differences", "data-compare-rows"):
        return [f"?earlier={BEFORE_ALL}&later={known['later']}"]
    if "changes" in address.name or address.name.startswith(("api:rows", "data")):
        return [""]
    if address.name.startswith("api:"):
        return ["", f"?key={KEY}&column=price", "?file_format=jsonl"]
    letters = known["requested_at"]
    of_json = {"sel": instants[0], "tab": "json", "key": KEY, "dead_letters": letters}
    of_summary = {"sel": instants[1], "tab": "summary", "key": LATE_KEY, "predicate": "price > 0"}
    return ["", f"?{urlencode(of_json)}", f"?{urlencode(of_summary)}"]


def paths(address: Address, known: Mapping[str, str], instants: list[str]) -> set[str]:
    """Every address of this name that the table has."""
    return {
        reverse(address.name, kwargs={name: made[name] for name in address.takes})
        for at in (instants if "requested_at" in address.takes else [known["requested_at"]])
        for part in ALL_PARTS.get(address.name, [PARTS.get(address.name, "")])
        for made in [{**known, "requested_at": at, "part": part}]
    }


def answers(
    client: Client, known: Mapping[str, str], table: Table
) -> Iterator[tuple[str, int, str]]:
    """(name of the address, status, answer without the key that the question itself named)."""
    instants = sorted(table.instants.values_list("requested_at", flat=True))
    for address in addresses():
        for path in sorted(paths(address, known, instants)):
            for question in questions(address, known, instants):
                status, text = answer_to(client, "GET", path + question)
                echo = next((key for key in (KEY, LATE_KEY) if key in question), "")
                yield address.name, status, text.replace(echo, "") if echo else text
            if address.is_of_table:
                yield address.name, *answer_to(client, "POST", path)
    yield from answers_to_filled(client, known)


def answers_to_filled(client: Client, known: Mapping[str, str]) -> Iterator[tuple[str, int, str]]:
    """The same of requests with a body, each undone before the next is sent."""
    takes = {address.name: address.takes for address in addresses()}
    for request in FILLED:
        with undone():
            if request.needs_no_other:
                Operation.objects.filter(pk=known["waiting_id"]).update(state="cancelled")
            yield request.name, *request.sent(client, known, takes[request.name])


def answer_to(client: Client, method: str, path: str) -> tuple[int, str]:
    """Status and body."""
    client.raise_request_exception = False
    is_api = path.startswith("/api/")
    content_type = "application/json" if is_api else "application/x-www-form-urlencoded"
    answer = client.generic(method, path, b"{}" if is_api else b"", content_type)
    body = b"".join(answer) if answer.streaming else answer.content
    return answer.status_code, body.decode() + answer.get("Location", "")


def met(
    client: Client, known: Mapping[str, str], table: Table, values: set[str]
) -> dict[str, set[str]]:
    """Address -> which of the values it showed."""
    shown: dict[str, set[str]] = {}
    for name, _, text in answers(client, known, table):
        if seen := {value for value in values if value in text}:
            shown.setdefault(name, set()).update(seen)
    return shown


def test_every_address_that_takes_a_body_has_one_that_reaches_its_rows() -> None:
    changing = {f"api:{name}" for name, method, *_ in CASES if method != "GET"}
    changing |= {line.name for line in table_of("admin") if line.method == "POST"}
    filled = {request.name for request in FILLED}

    assert changing - filled - READS_NO_ROWS == set(), (
        "give each a request in FILLED (tests/security/filled_requests.py), or put it into "
        "READS_NO_ROWS if it reads no row, whatever it is sent"
    )
    assert filled & READS_NO_ROWS == set()
    assert (filled | READS_NO_ROWS) - {address.name for address in addresses()} == set()


@pytest.mark.slow
def test_every_filled_body_is_accepted_from_a_person_who_may(
    known: dict[str, str], watched: Table, client: Client
) -> None:
    person = User.objects.create_superuser("sue")
    client.force_login(person)

    refused = [
        (name, status, text[:2000])
        for name, status, text in answers_to_filled(client, known)
        if status >= 400
    ]

    assert refused == []


@pytest.mark.slow
def test_nobody_is_shown_a_value_of_rows_that_he_may_not_read(
    known: dict[str, str], watched: Table, reader: User, client: Client
) -> None:
    client.force_login(reader)

    assert met(client, known, watched, IN_ROWS | BEHIND_MASKS) == {}
    assert not AuditEvent.objects.filter(what="rows.read").exists()


@pytest.mark.slow
def test_nobody_is_shown_a_masked_value(
    known: dict[str, str], watched: Table, reader: User, client: Client
) -> None:
    RowGrant.objects.create(user=reader, table=watched, right="rows")
    client.force_login(reader)

    shown = met(client, known, watched, IN_ROWS | BEHIND_MASKS)

    assert set.union(*shown.values()) == IN_ROWS
    assert (
        MASK in client.get(f"/t/orders/sinks?dead_letters={known['requested_at']}").content.decode()
    )


@pytest.mark.slow
def test_whoever_sees_masked_columns_is_shown_all_of_them_by_these_doors(
    known: dict[str, str], watched: Table, reader: User, client: Client
) -> None:
    """Otherwise the tests above would look for what no address ever shows."""
    RowGrant.objects.create(user=reader, namespace=watched.namespace, right="masked")
    client.force_login(reader)

    shown = met(client, known, watched, IN_ROWS | BEHIND_MASKS)

    assert set.union(*shown.values()) == IN_ROWS | BEHIND_MASKS
    assert set(shown) == DOORS
