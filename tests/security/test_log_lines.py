"""Threat T17: what others wrote (keys, paths, errors, headers) never makes a line of a log, hides
one, or turns one around; and no secret gets into one.
"""

from __future__ import annotations

import io
import json
import logging
import logging.config
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker
from django.contrib.auth.models import Group, User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from controlplane.audit.models import AuditEvent
from controlplane.celery import app as node_app
from controlplane.operations.actions import do_request_write
from controlplane.operations.models import Operation
from controlplane.operations.moves import send
from controlplane.settings.logs import logging_settings
from controlplane.tables.models import Table
from workers.log_lines import (
    CHARS_MAX,
    LineFormatter,
    bind,
    current_operation_id,
    current_request_id,
    line_formatter,
)
from workers.spark.process import driver_environment
from workers.task_logs import HEADER, follow_requests

REPOSITORY = Path(__file__).resolve().parents[2]
TURNING = "\u202e\u2066\u200f\u061c"
ATTACK = f"a\r\nb\x0b\x0c\x1b[31m\x00\x85\u2028\u2029{TURNING}\ufeff\ud800 end"
FORMATS = ("text", "json")
REQUEST = "0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_ids() -> Iterator[None]:
    bind(request_id="", operation_id="")
    yield
    bind(request_id="", operation_id="")


@pytest.fixture
def admin(db: None, settings: Settings) -> User:
    settings.SLUICE_TABLE_ROOTS = ("/lake",)
    settings.SLUICE_SOURCE_ROOTS = ("/data",)
    user = User.objects.create_user("ada")
    user.groups.add(Group.objects.get(name="admin"))
    return user


@pytest.fixture
def logged() -> Iterator[Callable[[str], io.StringIO]]:
    """What the root logger says in one format, from now on."""
    handler = logging.StreamHandler(io.StringIO())
    root = logging.getLogger()

    def listen(wanted: str) -> io.StringIO:
        handler.setFormatter(line_formatter({"SLUICE_LOG_FORMAT": wanted}))
        root.addHandler(handler)
        return handler.stream

    yield listen
    root.removeHandler(handler)


def attacked(error: BaseException | None = None) -> logging.LogRecord:
    """With the attack in every field that others may fill."""
    caught = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord(
        f"logger {ATTACK}", logging.ERROR, "", 0, f"at {ATTACK}: %s", (ATTACK,), caught
    )


def assert_harmless(line: str) -> None:
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert not set(TURNING) & set(line)
    line.encode()


@pytest.mark.parametrize("wanted", FORMATS)
def test_one_event_is_one_line_whatever_it_carries(wanted: str) -> None:
    bind(request_id=ATTACK, operation_id=ATTACK)
    try:
        raise ValueError(ATTACK)
    except ValueError as error:
        record = attacked(error)
    record.stack_info = ATTACK

    line = line_formatter({"SLUICE_LOG_FORMAT": wanted}).format(record)

    assert_harmless(line)
    assert line.count("end") >= 6, "nothing was lost"


@given(st.text())
def test_no_text_breaks_a_line_or_is_lost_in_json(text: str) -> None:
    record = logging.LogRecord("n", logging.INFO, "", 0, "%s", (text,), None)

    line = LineFormatter(is_json=True).format(record)

    assert line.isascii()
    assert_harmless(line)
    if "token" not in text.lower() and ":" not in text and "=" not in text:
        assert json.loads(line).get("message", "") == text


@given(st.text(st.characters(categories=("Cc", "Cf", "Zl", "Zp", "L")), max_size=40))
def test_no_control_character_is_left_in_text(text: str) -> None:
    record = logging.LogRecord("n", logging.INFO, "", 0, "%s", (text,), None)

    line = LineFormatter().format(record)

    assert len(line.splitlines()) == 1
    assert not {"\x1b", "\x00", "\x9b", *TURNING} & set(line)


def test_json_says_who_when_how_bad_and_for_whom() -> None:
    bind(request_id=REQUEST, operation_id="op-1")
    record = logging.LogRecord("some.module", logging.WARNING, "", 0, "it %s", ("broke",), None)
    record.created = 1_767_225_600.25

    line = json.loads(LineFormatter(is_json=True).format(record))

    assert line == {
        "at": "2026-01-01T00:00:00.250+00:00",
        "level": "warning",
        "logger": "some.module",
        "message": "it broke",
        "request_id": REQUEST,
        "operation_id": "op-1",
        "pid": os.getpid(),
    }


def test_a_thread_of_a_task_knows_for_whom_it_works() -> None:
    """It begins with an empty context."""
    bind(request_id=REQUEST, operation_id="op-1")
    lines: list[str] = []

    def beat() -> None:
        record = logging.LogRecord("n", logging.INFO, "", 0, "beat", (), None)
        lines.append(LineFormatter().format(record))

    thread = threading.Thread(target=beat)
    thread.start()
    thread.join()

    assert lines[0].endswith(f"beat request_id={REQUEST} operation_id=op-1")


@pytest.mark.parametrize(
    ("said", "hidden"),
    [
        ("connect postgres://sluice:hunter22@db/x", "hunter22"),
        ("redis://:p%40ss@host:6379/0 is away", "p%40ss"),
        ("Authorization: Bearer abcdefghij0123456789", "abcdefghij0123456789"),
        ("headers {'Authorization': 'Worker 0f.abcdef0123456789'}", "abcdef0123456789"),
        ("sasl.password=opensesame,", "opensesame"),
        ('{"secret": "open sesame"}', "open sesame"),
        ("of my environment: k3-very-secret-value", "k3-very-secret-value"),
        ("of the broker: opensesame-broker", "opensesame-broker"),
    ],
)
@pytest.mark.parametrize("wanted", FORMATS)
def test_no_secret_gets_into_a_line(wanted: str, said: str, hidden: str) -> None:
    environment = {
        "SLUICE_LOG_FORMAT": wanted,
        "SLUICE_SECRET_KEY": "k3-very-secret-value",
        "SLUICE_KAFKA_PASSWORD_OF_ORDERS": "opensesame-broker",
    }
    try:
        raise ValueError(said)
    except ValueError as error:
        caught = (type(error), error, error.__traceback__)
    record = logging.LogRecord("n", logging.ERROR, "", 0, "%s", (said,), caught)

    line = line_formatter(environment).format(record)

    assert hidden not in line
    assert line.count("***") >= 2, "in the message and in the error"


def test_words_that_only_look_like_a_secret_stay() -> None:
    said = "no secret key: run `make up`; 3 tokens; http://127.0.0.1:8000/x; a@b"
    record = logging.LogRecord("n", logging.INFO, "", 0, "%s", (said,), None)

    assert said in LineFormatter().format(record)


def test_a_huge_event_keeps_its_begin_and_its_end() -> None:
    text = "begin" + "://" * CHARS_MAX + "password=" * CHARS_MAX + " end"
    record = logging.LogRecord("n", logging.INFO, "", 0, "%s", (text,), None)

    line = LineFormatter().format(record)

    assert len(line) < 2 * CHARS_MAX
    assert "begin" in line
    assert line.endswith("end")


@pytest.mark.parametrize("wanted", FORMATS)
def test_a_path_that_somebody_made_up_is_one_line(
    wanted: str, client: Client, logged: Callable[[str], io.StringIO]
) -> None:
    stream = logged(wanted)

    client.get("/t/%0d%0a2026-01-01 ERROR forged%1b[2J%e2%80%ae", headers={"X-Request-ID": REQUEST})

    (line,) = stream.getvalue().splitlines()
    assert_harmless(line)
    assert "forged" in line
    assert REQUEST in line


def test_a_format_that_there_is_not_is_refused_before_anything_is_logged() -> None:
    with pytest.raises(ImproperlyConfigured, match="neither text nor json"):
        logging_settings({"SLUICE_LOG_FORMAT": "xml"})


def test_a_server_of_ours_and_its_libraries_log_in_the_same_lines(tmp_path: Path) -> None:
    """In a process of its own: uvicorn's handlers go, and an error nobody caught is one line."""
    program = """
import logging, logging.config, os, sys
import uvicorn
from controlplane.settings.logs import logging_settings
from workers.log_lines import log_uncaught
uvicorn.Config("x", access_log=False)
logging.config.dictConfig(logging_settings(os.environ))
log_uncaught()
logging.getLogger("uvicorn.error").info("started")
logging.getLogger("uvicorn.access").info("GET /")
logging.getLogger("django.request").warning("Not Found: %s", "/a\\nb")
import warnings
warnings.warn("old\\nnews")
raise ValueError("the end\\nof it")
"""
    environment = {**os.environ, "SLUICE_LOG_FORMAT": "json"}
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [line["logger"] for line in lines] == [
        "uvicorn.error",
        "django.request",
        "py.warnings",
        "uncaught",
    ]
    assert "the end\nof it" in lines[-1]["error"]
    assert ended.stdout == ""


def test_a_request_is_known_to_the_message_and_to_the_driver(
    db: None, admin: User, django_capture_on_commit_callbacks: Any
) -> None:
    operation = _write(admin, django_capture_on_commit_callbacks)

    assert _queued_headers()[HEADER] == REQUEST
    assert AuditEvent.objects.get(details__operation=str(operation.pk)).request_id == REQUEST
    bind(request_id=REQUEST, operation_id="")
    environment = driver_environment({"SLUICE_WORKER_TOKEN": "t" * 20}, str(operation.pk))
    assert environment["SLUICE_REQUEST_ID"] == REQUEST


def test_a_job_that_is_sent_again_still_names_its_first_request(
    db: None, admin: User, django_capture_on_commit_callbacks: Any
) -> None:
    operation = _write(admin, django_capture_on_commit_callbacks)
    _queued_headers()
    bind(request_id="", operation_id="")

    with django_capture_on_commit_callbacks(execute=True):
        send(Operation.objects.get(pk=operation.pk))

    assert _queued_headers()[HEADER] == REQUEST


def _write(admin: User, capture: Any) -> Operation:
    """As a page asks for it, under a request's id."""
    table = Table.objects.create(slug="trips", name="t", location="/lake/trips")
    source = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
    bind(request_id=REQUEST, operation_id="")
    with node_app.connection_for_read() as connection:
        connection.SimpleQueue("engine").clear()  # Of what other tests sent and nobody took.
    with capture(execute=True):
        return do_request_write(table=table, parameters=source, by=admin)


def _queued_headers() -> dict[str, Any]:
    """Of the newest message to the workers, which is taken out."""
    with node_app.connection_for_read() as connection:
        message = connection.SimpleQueue("engine").get(timeout=60)
        message.ack()
    return dict(message.headers)


def test_a_task_works_for_the_request_and_operation_of_its_message() -> None:
    app = Celery("told", broker="memory://", backend="cache+memory://")
    app.conf.update(worker_hijack_root_logger=False, task_default_queue="for-log-tests")
    follow_requests(lambda: None)
    seen: list[tuple[str, str]] = []

    @app.task
    def work(message: dict[str, str]) -> None:
        seen.append((current_request_id.get(), current_operation_id.get()))

    @app.task
    def idle() -> None:
        seen.append((current_request_id.get(), current_operation_id.get()))

    bind(request_id=REQUEST, operation_id="")
    first = work.delay({"operation_id": "op-1"})
    bind(request_id="", operation_id="")
    second = idle.delay()
    with start_worker(app, pool="solo", perform_ping_check=False):
        first.get(timeout=60)
        second.get(timeout=60)

    assert seen == [(REQUEST, "op-1"), ("", "")]
