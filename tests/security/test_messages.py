"""Threat T34: a message or a log line shows values of rows only to readers of all the tables that
it may speak of; class and cause of an error are shown to every user who sees the operation.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.accounts.models import Grant
from controlplane.operations.models import LogLine, Operation, Schedule, ScheduleRun
from controlplane.operations.moves import move
from controlplane.operations.states import OperationState
from controlplane.tables.masks import MASK
from controlplane.tables.messages import mask_message, select_log_line
from controlplane.tables.models import MaskedColumn, RowGrant, Table

CANARY = "canary-of-a-row"
NO_TYPE = "a value does not fit the type of its column"
FAILURE = f"UnknownException: [CAST_INVALID_INPUT] The value '{CANARY}' is malformed"
REFUSED = "the connection was refused"
TRACEBACK = (
    "failed: Traceback (most recent call last):"
    r'\x0a  File "/x/y.py", line 7, in f\x0a    g(bob)\x0a'
)


@pytest.fixture
def tables(db: None) -> tuple[Table, Table]:
    """What a write reads, and where it writes."""
    tables = [Table.objects.create(slug=name, name=name, location=f"/lake/{name}") for name in "ab"]
    return tables[0], tables[1]


@pytest.fixture
def write(tables: tuple[Table, Table], admin: User) -> Operation:
    """A write of rows of the one table into the other, which failed over a value and logged it."""
    named = {"a": {"location": "/lake/a", "columns": {}}}
    source = {"kind": "sql", "statement": "SELECT 1", "tables": json.dumps(named)}
    operation = Operation.objects.create(
        table=tables[1],
        kind="write",
        state="running",
        requested_by=admin,
        parameters={"writer": "w", "job": {"by": "ada", "source": source}},
    )
    move(operation.pk, OperationState.FAILED, message=FAILURE)
    LogLine.objects.create(
        operation=operation,
        at=timezone.now(),
        level=40,
        source="py4j",
        message=FAILURE,
        host="h",
        number=1,
    )
    return operation


def addresses(write: Operation) -> list[str]:
    page, api = f"/t/b/operations/{write.pk}", f"/api/v1/operations/{write.pk}/"
    return [
        *(page, f"{page}/state", f"{page}/log", f"{page}/log/download", "/operations", "/"),
        *("/operations/export?as=csv", "/operations/export?as=json"),
        *(api, f"{api}log/", f"{api}log/download/", "/api/v1/operations/"),
        "/api/v1/tables/b/operations/",
    ]


def reads(user: User, *tables: Table, right: str = "rows") -> None:
    for table in tables:
        RowGrant.objects.create(user=user, table=table, right=right)


def reads_nothing(_user: User, _a: Table, _b: Table) -> None: ...


def reads_behind_a_mask(user: User, a: Table, b: Table) -> None:
    reads(user, a, b)
    MaskedColumn.objects.create(table=a, path="name")


def reads_the_target(user: User, _a: Table, b: Table) -> None:
    reads(user, b)


def reads_both(user: User, a: Table, b: Table) -> None:
    reads(user, a, b)


def reads_all_columns_of_both(user: User, a: Table, b: Table) -> None:
    reads(user, a, b, right="masked")
    MaskedColumn.objects.create(table=a, path="name")


def reads_a_source_that_they_do_not_see(user: User, a: Table, b: Table) -> None:
    reads(user, a, b)
    Grant.objects.filter(user=user, table=a).delete()


@pytest.mark.parametrize(
    ("grant", "is_whole"),
    [
        (reads_nothing, False),
        (reads_the_target, False),
        (reads_behind_a_mask, False),
        (reads_a_source_that_they_do_not_see, False),
        (reads_both, True),
        (reads_all_columns_of_both, True),
    ],
)
def test_readers_of_all_its_tables_see_the_value_and_everybody_sees_the_cause(
    grant: Callable[[User, Table, Table], None],
    is_whole: bool,
    write: Operation,
    tables: tuple[Table, Table],
    nobody: User,
    client: Client,
) -> None:
    for table in tables:
        Grant.objects.create(user=nobody, table=table, role="operator", granted_at=timezone.now())
    grant(nobody, *tables)
    client.force_login(nobody)

    answers = {path: load_text(client, path) for path in addresses(write)}
    listed = load_text(client, f"/api/v1/operations/?text={CANARY[:9]}")
    searched = client.get(f"/api/v1/operations/{write.pk}/log/?text={CANARY[:9]}").status_code

    assert {path for path, text in answers.items() if CANARY in text} == (
        set(answers) if is_whole else set()
    )
    assert [path for path, text in answers.items() if "UnknownException" not in text] == []
    if not is_whole:
        assert [path for path, text in answers.items() if NO_TYPE not in text] == []
    assert (str(write.pk) in listed, searched) == ((True, 200) if is_whole else (False, 403))


def test_who_sees_neither_table_is_told_nothing(
    write: Operation, nobody: User, client: Client
) -> None:
    client.force_login(nobody)

    assert not [path for path in addresses(write) if "UnknownException" in load_text(client, path)]


def test_words_of_a_schedule_need_the_rows_that_its_statement_reads(
    synced: Table, admin: User, nobody: User, client: Client, as_admin: Client
) -> None:
    target = Table.objects.create(slug="b", name="b", location="/lake/b")
    schedule = Schedule.objects.create(
        table=target,
        name="hourly",
        kind="write",
        trigger="every",
        every_s=3600,
        owner=admin,
        begins_at=timezone.now(),
        changed_at=timezone.now(),
        parameters={"source": {"kind": "sql", "statement": "SELECT id FROM trips"}},
    )
    ScheduleRun.objects.create(
        schedule=schedule, turn="1", due_at=timezone.now(), outcome="not_run", words=FAILURE
    )
    Grant.objects.create(user=nobody, table=target, role="viewer", granted_at=timezone.now())
    reads(nobody, target)
    client.force_login(nobody)
    address = "/api/v1/tables/b/schedules/"

    assert CANARY in load_text(as_admin, address)
    text = load_text(client, address)
    assert (CANARY in text, NO_TYPE in text) == (False, True)
    Grant.objects.create(user=nobody, table=synced, role="viewer", granted_at=timezone.now())
    reads(nobody, synced)
    assert CANARY in load_text(client, address)


def load_text(client: Client, path: str) -> str:
    answer = client.get(path)
    body = b"".join(answer) if answer.streaming else answer.content
    return body.decode().replace("&#x27;", "'")


def test_admin_reads_it_whole(write: Operation, as_admin: Client) -> None:
    assert [path for path in addresses(write) if CANARY not in load_text(as_admin, path)] == []


@pytest.mark.parametrize(
    ("message", "masked"),
    [
        ("rolled back 20261121120000000", "rolled back 20261121120000000"),
        (
            "invalid_input: no such file: path=/data/a.csv",
            "invalid_input: no such file: path=/data/a.csv",
        ),
        (
            "invalid_input: null in a key: column=id first_keys=['a'] path=/b",
            f"invalid_input: null in a key: column=id first_keys={MASK}",
        ),
        (
            "invalid_input: unknown option: key=hoodie.x known=hoodie.y",
            "invalid_input: unknown option: key=hoodie.x known=hoodie.y",
        ),
        ("key is there already: key=bob", f"key is there already: key={MASK}"),
        ("EarlyConflict: others win: rival=w", "EarlyConflict: others win: rival=w"),
        ("ArrowInvalid: could not convert 'bob'", f"ArrowInvalid: {MASK} ({NO_TYPE})"),
        (
            "its worker reported failed: KeyError: 'bob'",
            f"its worker reported failed: KeyError: {MASK}",
        ),
        ("ValueError: Bob: 7", f"ValueError: {MASK}"),
        (
            "UnknownException: (org.apache.spark.SparkNumberFormatException) [CAST_INVALID_INPUT]",
            f"UnknownException: SparkNumberFormatException: {MASK} ({NO_TYPE})",
        ),
        (
            "running -> failed: storage_failed: no answer: why=OSError: bob: Connection refused",
            f"running -> failed: storage_failed: no answer: why=OSError: {MASK} ({REFUSED})",
        ),
        ("not read: bob", f"not read: {MASK}"),
        (
            f'{TRACEBACK}PermissionError: bob\\x0a  File "/bob.py", line 9',
            f"failed: PermissionError: {MASK} (permission was denied; y.py, line 7)",
        ),
    ],
)
def test_what_went_wrong_is_said_without_values_of_rows(message: str, masked: str) -> None:
    assert mask_message(message) == masked


def test_lines_of_other_loggers_are_masked_whole() -> None:
    assert select_log_line("bob timed out", "output", is_whole=False) == f"{MASK} (it timed out)"
    assert select_log_line("driver ends", "workers.spark.runner", is_whole=False) == "driver ends"
