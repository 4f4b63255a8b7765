"""Threats T8, T9: whoever may write to the queue makes no worker run code of his, nor a job that
the control plane did not send, and no worker dies of it. No result backend builds exceptions again.
"""

from __future__ import annotations

import base64
import json
import pickle
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery.contrib.testing.worker import start_worker
from celery.exceptions import Ignore
from django.contrib.auth.models import User
from kombu import Connection
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

import controlplane.celery
import workers.celery
import workers.tasks
from controlplane.operations.actions import do_start_sink
from tests.controlplane.lake import Lake
from tests.controlplane.sink_jobs import OPTIONS
from workers.celery import app
from workers.errors import InvalidInput
from workers.jobs import RollbackJob
from workers.reporting.tokens import KEY_VARIABLE, SIGNATURE, sign_message
from workers.tasks import rollback
from workers.tasks.signed_task import SignedTask
from workers.traces import PARENT

KEY = "a worker token of a test"
QUEUE = "engine"
ABSENT = object()


class Canary:
    """Unpickled, or loaded as YAML, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


STRANGE: dict[str, list[Any]] = {
    "id": [ABSENT, None, 1, [], {}, "x" * 300],
    "eta": [1, [], "never", "9" * 99], "expires": [1, [], "never", "2020-01-01T00:00:00"],
    "timelimit": ["x", 1, [1], [0.0001, 0.0001], ["a", "b"]],
    "retries": ["x", [], 1.5], "group": [1, []], "root_id": [1, []], "parent_id": [{}],
    "shadow": [1, []], "argsrepr": [1], "stamps": ["x"], "stamped_headers": [["x"]],
    "ignore_result": ["x"], "reply_to": [1], "origin": [[]],
}  # fmt: skip


@pytest.fixture
def ran() -> list[dict[str, Any]]:
    """What reached the one task that these workers have."""
    return []


@pytest.fixture
def publish(
    ran: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[..., None]]:
    """A real Celery worker with the engine's settings, and a way to put anything into its queue."""
    monkeypatch.setenv(KEY_VARIABLE, KEY)

    def hear(message: dict[str, Any]) -> None:
        ran.append(message)

    heard = app.task(base=SignedTask, name="tests.heard", shared=False)(hear)
    places = {name: tmp_path / name for name in ("q", "out", "control")}
    for place in places.values():
        place.mkdir()
    transport = {
        "data_folder_in": str(places["q"]),
        "data_folder_out": str(places["out"]),
        "control_folder": str(places["control"]),
    }
    before = (app.conf.broker_url, app.conf.broker_transport_options)
    app.conf.broker_url, app.conf.broker_transport_options = "filesystem://", transport
    connection = Connection("filesystem://", transport_options=transport)

    def put(
        body: bytes | str, *, task: str = "tests.heard", content_type: str = "application/json",
        **headers: Any,
    ) -> None:  # fmt: skip
        named = {"lang": "py", "task": task, "id": str(uuid.uuid4()), "root_id": "r", **headers}
        named = {name: given for name, given in named.items() if given is not ABSENT}
        queue = connection.SimpleQueue(QUEUE)
        queue.producer.publish(
            body, headers=named, content_type=content_type,
            content_encoding="utf-8" if isinstance(body, str) else "binary",
            correlation_id="c", routing_key=QUEUE,
        )  # fmt: skip
        queue.close()
        # The transport would read a message of which only the beginning is written, and die of it.
        for whole in places["out"].iterdir():
            whole.rename(places["q"] / whole.name)

    with start_worker(app, perform_ping_check=False, pool="solo", queues=[QUEUE]):
        yield put
    app.conf.broker_url, app.conf.broker_transport_options = before
    app.tasks.pop(heard.name)


def body_of(*args: Any, **kwargs: Any) -> str:
    return json.dumps([list(args), kwargs, {}])


@pytest.mark.slow
def test_nothing_but_signed_json_of_a_known_task_runs(
    publish: Callable[..., None], ran: list[dict[str, Any]], tmp_path: Path
) -> None:
    touched = tmp_path / "touched"
    message = {"operation_id": "o", "n": 1}
    good = {SIGNATURE: sign_message(KEY, "tests.heard", message)}
    pickled = pickle.dumps([[Canary(touched)], {}, {}])
    tag = f"!!python/object/apply:os.mkdir ['{touched}']"

    for content_type in ("application/x-python-serialize", "application/json", "text/plain"):
        publish(pickled, content_type=content_type, **good)
    publish(base64.b64encode(pickled).decode(), content_type="application/x-python-serialize")
    for content_type in ("application/x-yaml", "application/json", "application/x-msgpack"):
        publish(f"[[{tag}], {{}}, {{}}]", content_type=content_type, **good)
    for task in (
        "os.system",
        "celery.chain",
        "workers.tasks.nothing",
        "builtins.eval",
        "",
        "\u0000",
    ):
        publish(body_of(f"touch {touched}"), task=task, **good)
    for text in ("", "null", "[]", "{}", "[1,2,3]", "[" * 100_000, body_of(), body_of(1, 2), '"x"'):
        publish(text, **good)
    for args, kwargs in (((message, 1), {}), ((), {"message": message}), ((message,), {"x": 1})):
        publish(body_of(*args, **kwargs), **good)
    publish(body_of(message))
    publish(body_of(message), is_eager=True, called_directly=True)
    publish(body_of(message), delivery_info={"is_eager": True})
    publish(body_of(message | {"n": 2}), **good)
    signature: object
    for signature in ("", "0" * 64, None, 1, [], {"a": 1}, "\u00e9" * 64):
        publish(body_of(message), **{SIGNATURE: signature})
    for key, task in (("another", "tests.heard"), (KEY, "tests.other"), ("", "tests.heard")):
        publish(body_of(message), **{SIGNATURE: sign_message(key, task, message)})
    for header, texts in STRANGE.items():
        for text in texts:
            publish(body_of(message), **{**good, header: text})
    more: object
    for more in ({"callbacks": [{"task": "x"}]}, {"chain": [1]}, {"chord": {"task": "x"}}, [], 1):
        publish(json.dumps([[message], {}, more]), **good)
    publish(json.dumps({"task": "tests.heard", "id": "1", "args": [message], "kwargs": {}}))
    publish(json.dumps({"task": "tests.heard", "args": [message]}), task=ABSENT)
    publish(json.dumps(["args", {}, {}]), **good)
    _until(lambda: not any((tmp_path / "q").iterdir()))
    assert ran == []
    publish(body_of(message), **good)
    _until(lambda: bool(ran))

    assert ran == [message]
    assert not touched.exists()


def _until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until, "the worker carries nothing out any more"
        time.sleep(0.02)


@pytest.mark.parametrize("key", [KEY, ""])
def test_a_job_without_its_signature_does_not_begin(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, key)
    message = {"operation_id": "o"}
    signature = sign_message(KEY, rollback.name, message)
    sent: list[tuple[dict[str, Any], list[Any], dict[str, Any]]] = [
        ({}, [message], {}),
        ({"is_eager": True, "called_directly": True}, [message], {}),
        ({SIGNATURE: signature}, [{"operation_id": "p"}], {}),
        ({SIGNATURE: signature}, [message], {"x": 1}),
        ({SIGNATURE: signature, PARENT: "00-a-b-01"}, [message], {}),
        ({SIGNATURE: sign_message("", rollback.name, message)}, [message], {}),
        ({SIGNATURE: sign_message(KEY, "workers.tasks.other", message)}, [message], {}),
    ]

    for headers, args, kwargs in sent if key else [*sent, ({SIGNATURE: signature}, [message], {})]:
        rollback.push_request(delivery_info={"routing_key": "engine"}, **headers)
        with pytest.raises(Ignore):
            rollback.before_start("an-id", args, kwargs)
        rollback.pop_request()
    if key:
        traced = sign_message(KEY, rollback.name, message, "00-a-b-01")
        for headers in ({SIGNATURE: signature}, {SIGNATURE: traced, PARENT: "00-a-b-01"}):
            rollback.push_request(delivery_info={}, **headers)
            rollback.before_start("an-id", [message], {})
            rollback.pop_request()


def test_every_task_of_the_engine_asks_for_the_signature() -> None:
    tasks = [getattr(workers.tasks, name) for name in workers.tasks.__all__]

    assert [task.name for task in tasks if not isinstance(task, SignedTask)] == []
    assert len(tasks) == len({task.name for task in tasks}) == 6
    assert isinstance(rollback, SignedTask)


def test_what_the_control_plane_sends_is_signed(
    lake: Lake, admin: User, settings: Settings, monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:  # fmt: skip
    sent: list[tuple[str, Any, dict[str, Any]]] = []

    def keep(task: str, args: Any, headers: dict[str, Any], **_given: Any) -> None:
        sent.append((task, args, headers))

    monkeypatch.setattr(controlplane.celery.app, "send_task", keep)
    with django_capture_on_commit_callbacks(execute=True):
        do_start_sink(lake.row, OPTIONS, by=admin)

    [(task, [message], headers)] = sent
    expected = sign_message(settings.SLUICE_WORKER_TOKEN, task, json.loads(json.dumps(message)))
    assert headers[SIGNATURE] == expected


@pytest.mark.parametrize("application", [controlplane.celery.app, workers.celery.app])
def test_results_are_kept_nowhere_and_json_is_all_that_is_taken(application: Any) -> None:
    """T9: an exception that is built again from a result is code that a result names."""
    conf = application.conf

    assert conf.result_backend is None
    assert conf.task_ignore_result is True
    assert conf.accept_content == ["json"]
    assert conf.result_accept_content in (None, ["json"])
    assert (conf.task_serializer, conf.result_serializer, conf.event_serializer) == ("json",) * 3
    assert application.backend.__class__.__name__ == "DisabledBackend"


FORGED = {
    "operation_id": ["../x", "", "a b", 1, None, ["o"], {"a": 1}, "x" * 200, "o\n"],
    "table": ["relative", "/a/../b", "/a//b", "", "http://h/x?y", "s3://b/../c", 3, None, "/a\x00"],
    "instant": ["2026", "../../x", "20260101000000000\n", 20260101000000000, None],
    "run_dir": ["x", "/x/../y", "", 1, "/x\x00"],
    "report_url": ["file:///etc/passwd", "gopher://x", "http://u:p@h/", "http://", 1, "//h"],
    "attempt": [-1, 1000, "1", 1.5, True, None],
    "asks_leave": [0, 1, "true", None],
    "by": ["", "x" * 5000, 1, "a\x00"],
    "plan_hash": [1, ["x"], "x" * 5000],
}


@pytest.mark.parametrize("name", FORGED)
def test_a_message_with_a_member_of_another_kind_is_refused_before_anything_is_touched(
    name: str, tmp_path: Path
) -> None:
    message = RollbackJob(
        operation_id="o", table=str(tmp_path), instant="20260101000000000", plan_hash="x",
        reason="r", by="eve",
    ).to_message()  # fmt: skip

    for forged in FORGED[name]:
        with pytest.raises(InvalidInput):
            rollback.apply(args=[{**message, name: forged}]).get()

    assert list(tmp_path.iterdir()) == []
