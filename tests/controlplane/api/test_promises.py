"""The promise of `docs/api.md`, "Compatibility": nothing that the document names disappears or
changes its meaning within a version, and what is deprecated is marked.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory, force_authenticate

from controlplane.api.openapi import Schema
from controlplane.api.views import ApiView
from tests.controlplane.api.promises import deprecated, document, kept, promises

ADD = "it is new: python -m tests.controlplane.api.promises adds it to what is kept"
SINCE = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return document()


def test_nothing_that_was_promised_is_taken_away_or_becomes_something_else(
    made: dict[str, Any],
) -> None:
    now = promises(made)

    assert kept() - now == set(), "docs/api.md promises these until /api/v2/"
    assert now - kept() == set(), ADD


class Going(ApiView):
    deprecated_since = SINCE
    permission_classes = ()

    @extend_schema(operation_id="going", responses={200: str})
    def get(self, request: Request) -> Response:
        return Response("still here")


def test_what_is_to_go_is_marked_in_the_document_and_says_so_in_each_answer(
    made: dict[str, Any],
) -> None:
    request = APIRequestFactory().get("/")
    force_authenticate(request, User(username="vera"))

    answer = Going.as_view()(request)
    schema = Schema()
    schema.view, schema.method = Going(), "GET"

    assert answer.status_code == 200
    assert answer["Deprecation"] == f"@{int(SINCE.timestamp())}"
    assert schema.is_deprecated()
    assert deprecated(made) == set(), "of these the changelog names the release in which they go"
