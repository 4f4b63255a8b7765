"""Guessing a password is slowed down on every path that logs in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from pytest_django import Settings

from bench.support.redis_server import redis_server
from controlplane.accounts.throttle import (
    ACCOUNT,
    ADDRESS,
    LOCAL_COUNTERS,
    PAIR,
    begin_attempt,
    refund_attempt,
)


def test_after_five_failures_even_the_right_password_has_to_wait(
    viewer: User, rf: RequestFactory
) -> None:
    request = rf.post("/login/")
    for _ in range(5):
        assert authenticate(request, username="vera", password="guess") is None

    assert authenticate(request, username="vera", password="a long password") is None


def test_another_address_is_not_locked_out_by_it(viewer: User, rf: RequestFactory) -> None:
    for _ in range(6):
        authenticate(rf.post("/login/"), username="vera", password="guess")

    elsewhere = rf.post("/login/", REMOTE_ADDR="10.0.0.9")
    assert authenticate(elsewhere, username="vera", password="a long password") == viewer


def test_an_account_is_bounded_over_all_addresses(viewer: User, rf: RequestFactory) -> None:
    """Each address tries three times, so the pair's own bound is never reached."""
    for number in range(ACCOUNT.failures_max):
        request = rf.post("/login/", REMOTE_ADDR=f"10.0.0.{number // 3}")
        authenticate(request, username="vera", password="guess")

    fresh = rf.post("/login/", REMOTE_ADDR="10.9.9.9")
    assert authenticate(fresh, username="vera", password="a long password") is None


@pytest.mark.parametrize("address", ["10.0.0.7", "2001:db8:1:2::{number:x}", "::ffff:10.0.0.7"])
def test_an_address_is_bounded_over_all_names(
    viewer: User, rf: RequestFactory, address: str
) -> None:
    """All of a /64 is one caller."""
    for number in range(ADDRESS.failures_max):
        request = rf.post("/login/", REMOTE_ADDR=address.format(number=number))
        authenticate(request, username=f"name-{number}", password="guess")

    again = rf.post("/login/", REMOTE_ADDR=address.format(number=99))
    assert authenticate(again, username="vera", password="a long password") is None


def test_who_knows_the_password_is_never_counted(viewer: User, rf: RequestFactory) -> None:
    for _ in range(ADDRESS.failures_max + ACCOUNT.failures_max):
        assert authenticate(rf.post("/"), username="vera", password="a long password") == viewer


def test_many_at_once_get_no_more_tries_than_one_after_another(
    viewer: User, rf: RequestFactory, shared_cache: None
) -> None:
    """In processes that share one Redis the counting is all that they share."""
    started = threading.Barrier(24)

    def guess(number: int) -> bool:
        started.wait()
        return begin_attempt("vera", "10.0.0.1") is not None

    with ThreadPoolExecutor(24) as threads:
        tries = list(threads.map(guess, range(24)))

    assert 1 <= sum(tries) <= PAIR.failures_max


def test_login_works_and_stays_bounded_while_redis_is_down(
    viewer: User, settings: Settings, client: Client
) -> None:
    """The page answered 500, so nobody could get in to see what was wrong."""
    settings.CACHES = redis_cache("unix:///nowhere/redis.sock")
    right = {"username": "vera", "password": "a long password"}

    assert client.post("/login/", right).status_code == 302
    for _ in range(PAIR.failures_max):
        guessed = Client().post("/login/", right | {"password": "guess"})
        assert b"Not signed in." in guessed.content

    assert Client().post("/login/", right).status_code == 200, "after five failures it has to wait"


def test_an_attempt_that_redis_counted_ends_well_though_it_dies_meanwhile(
    settings: Settings,
) -> None:
    with redis_server("a-password") as server:
        settings.CACHES = redis_cache(server.address)
        counted = begin_attempt("vera", "10.0.0.1")
        assert counted
        server.stop()

        refund_attempt(counted)
        again = begin_attempt("vera", "10.0.0.1")

    assert again == counted, "counted under the same names, by the process"


def redis_cache(address: str) -> dict[str, dict[str, str]]:
    backend = "django.core.cache.backends.redis.RedisCache"
    return {"default": {"BACKEND": backend, "LOCATION": address}}


@pytest.fixture(autouse=True)
def _fresh_counters_of_the_process() -> None:
    LOCAL_COUNTERS.clear()


@pytest.fixture(params=["in the process", "in Redis"])
def shared_cache(request: pytest.FixtureRequest, settings: Settings) -> Iterator[None]:
    if request.param == "in the process":
        yield
        return
    with redis_server("a-password") as server:
        settings.CACHES = redis_cache(server.address)
        yield
