"""Guessing a password is slowed down on every path that logs in."""

from __future__ import annotations

from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.test import RequestFactory


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
