"""Every error below /api/ is JSON in one form, whatever went wrong and wherever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import Client
from pytest_django import Settings
from rest_framework.throttling import ScopedRateThrottle

from controlplane.accounts.tokens import create_token
from controlplane.api.bodies import DEPTH_MAX
from controlplane.request_threads import ThreadedHandler
from tests.controlplane.lake import Lake
from workers.table_services import registry

OPERATIONS = "/api/v1/tables/trips/operations/"
SERVICE = "/api/v1/tables/trips/services/clean/"


def one_form(answer: Any) -> str:
    """The code of an error."""
    assert answer["Content-Type"].startswith("application/problem+json"), answer.content[:200]
    assert set(answer.json()) == {"type", "title", "status", "detail", "code", "values"}
    return str(answer.json()["code"])


@pytest.fixture
def caller(admin: User) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(admin)
    return client


@pytest.mark.parametrize("method", ["options", "post", "delete"])
def test_the_documentation_takes_no_method_but_reading(caller: Client, method: str) -> None:
    answer = getattr(caller, method)("/api/v1/docs/")

    assert (answer.status_code, one_form(answer)) == (405, "method_not_allowed")
    assert answer["Allow"] == "GET, HEAD"


def test_a_database_that_does_not_answer_is_not_our_failure(caller: Client, lake: Lake) -> None:
    def refuse(execute: Callable[..., Any], statement: str, *rest: Any) -> Any:
        if "mirror_instantrecord" in statement:
            raise OperationalError("couldn't get a connection after 10.00 sec")
        return execute(statement, *rest)

    with connection.execute_wrapper(refuse):
        answer = caller.get("/api/v1/tables/trips/instants/")

    assert (answer.status_code, one_form(answer)) == (503, "database_unavailable")


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [DEPTH_MAX + 1, 900, 5_000, 100_000])
@pytest.mark.parametrize("path", [OPERATIONS, SERVICE, "/api/v1/tables/", "/api/v1/tokens/"])
def test_deeply_nested_json_is_refused(
    caller: Client, lake: Lake, path: str, depth: int, opening: str
) -> None:
    body = opening * depth + "1" + ("]" if opening == "[" else "}") * depth

    answer = caller.post(path, body, "application/json")

    assert (answer.status_code, one_form(answer)) == (400, "parse_error")
    assert str(DEPTH_MAX) in answer.json()["detail"]


def test_what_is_as_deep_as_it_may_be_is_read(caller: Client, lake: Lake) -> None:
    depth = DEPTH_MAX - 1
    source = "[" * depth + "]" * depth

    answer = caller.post(OPERATIONS, f'{{"source": {source}}}', "application/json")

    assert (answer.status_code, one_form(answer)) == (400, "invalid_request")


@pytest.mark.django_db(transaction=True)  # The server looks from a thread of its own.
def test_a_large_body_is_refused_by_the_server_as_it_runs(lake: Lake, admin: User) -> None:
    """Larger ones lie on disk by then, and are read in another way."""
    _, token = create_token(admin, scope="administer")
    for megabytes in (1.1, 2.2, 3.3, 12.0):
        source = {"kind": "x" * int(megabytes * 1_000_000)}
        body = json.dumps({"source": source}).encode()

        status, headers, answer = asyncio.run(_ask(OPERATIONS, body, token))

        assert status == 413
        assert headers[b"Content-Type"] == b"application/problem+json"
        assert json.loads(answer)["code"] == "too_large"


@pytest.mark.parametrize("method", ["get", "post", "delete", "options"])
@pytest.mark.parametrize(
    "path",
    ["/api/v1/nothing/", "/api/v1/tables/trips/nothing/", "/api/", "/api/v2/", "/api/v1/a\n"],
)
def test_an_unknown_path_is_told_in_json(
    caller: Client, lake: Lake, path: str, method: str
) -> None:
    answer = getattr(caller, method)(path)

    assert (answer.status_code, one_form(answer)) == (404, "not_found")


def test_a_foreign_host_and_a_failure_of_ours_are_told_in_json(
    caller: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = caller.get("/api/v1/tables/", HTTP_HOST="evil.example")

    def break_down(*_: object) -> None:
        raise RuntimeError("a-secret-of-ours")

    monkeypatch.setattr(registry, "get_service", break_down)
    broken = caller.post(f"{SERVICE}plan/", {}, "application/json")

    assert (foreign.status_code, one_form(foreign)) == (400, "invalid_request")
    assert (broken.status_code, one_form(broken)) == (500, "internal")
    assert broken.json()["values"]["request_id"] == broken["X-Request-ID"]
    assert b"a-secret" not in broken.content


def test_redis_that_is_down_is_told_in_json(
    caller: Client, lake: Lake, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits of requests are counted there, and fail closed."""
    backend = "django.core.cache.backends.redis.RedisCache"
    settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": "unix:///nowhere/redis.sock"}}
    monkeypatch.setattr(ScopedRateThrottle, "THROTTLE_RATES", {"service": "5/min"})

    answer = caller.post(SERVICE, {}, "application/json")

    assert (answer.status_code, one_form(answer)) == (503, "queue_unavailable")
    assert "make status" in answer.json()["detail"]


async def _ask(path: str, body: bytes, token: str) -> tuple[int, dict[bytes, bytes], bytes]:
    headers = [
        (b"host", b"localhost"),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"authorization", f"Token {token}".encode()),
    ]
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
    }
    sent: list[Mapping[str, Any]] = []
    given = iter([{"type": "http.request", "body": body}])

    async def receive() -> dict[str, Any]:
        if (message := next(given, None)) is None:
            await asyncio.Event().wait()  # The caller stays.
        return message or {}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    await asyncio.wait_for(ThreadedHandler()(scope, receive, send), 20)
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]
