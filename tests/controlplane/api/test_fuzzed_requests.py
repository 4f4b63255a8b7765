"""Requests of every kind that the OpenAPI document allows, and of kinds that it does not, by every
role: nothing fails on our side, every answer is one that the document lists and has its form, and
nobody gets more than his role gives him: of a table that he may not see he reads no word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import hypothesis
import pytest
import schemathesis
from django.contrib.auth.models import Group, User
from django.core.wsgi import get_wsgi_application
from hypothesis import strategies as st
from pytest_django import Settings
from rest_framework.throttling import ScopedRateThrottle
from schemathesis import Case
from schemathesis.checks import CheckFunction
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from controlplane.accounts.models import Grant
from controlplane.accounts.tokens import new_token
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.web.conftest import fill

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

EXAMPLES = 4
"""Of each operation, mode and role."""
EXAMPLES_IN_SOAK = 40
"""20,000 requests and more in all."""
ROLES = ("anonymous", "neighbour", "viewer", "operator", "admin")
ROLES_IN_SOAK = ("nobody", "auditor")
HIDDEN = "of-the-hidden-table"
"""What a table says wherever it may say anything; the neighbour, who has a role on another table,
may not see that there is such a table.
"""
NO_REDIS = ("queue_unavailable", "no_live_stream")
CASES = [
    *(pytest.param(role, EXAMPLES, id=role) for role in ROLES),
    *(
        pytest.param(role, EXAMPLES_IN_SOAK, id=f"{role}-soak", marks=pytest.mark.soak)
        for role in (*ROLES, *ROLES_IN_SOAK)
    ),
]
CHECKS: list[CheckFunction] = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
AnyCase: TypeAlias = "Case[Any]"
Answered: TypeAlias = "Callable[[AnyCase], int]"


@pytest.fixture
def tokens(
    synced: Table, nobody: User, viewer: User, operator: User, admin: User
) -> dict[str, str]:
    """A token of each; beside a table that lies in storage two have every kind of row."""
    rides = fill("rides", admin)
    fill("hidden", admin, text=HIDDEN)
    neighbour = User.objects.create_user("nils", password="a long enough password")
    Grant.objects.create(user=neighbour, table=rides, role="operator", granted_by="ada")
    auditor = User.objects.create_user("abel", password="a long enough password")
    auditor.groups.add(Group.objects.get(name="auditor"))
    people = {
        "nobody": nobody,
        "neighbour": neighbour,
        "viewer": viewer,
        "operator": operator,
        "auditor": auditor,
        "admin": admin,
    }
    return {role: new_token(person, scope="administer")[1] for role, person in people.items()}


@pytest.fixture
def answered(
    tokens: dict[str, str],
    request: pytest.FixtureRequest,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Answered:
    """The status of a request that is sent as the role does; the answer's form is checked."""
    monkeypatch.setattr(ScopedRateThrottle, "THROTTLE_RATES", {"rollback": None, "service": None})
    settings.DEBUG_PROPAGATE_EXCEPTIONS = False
    settings.SLUICE_MARKER_SECRET = ""  # Else an admin who restarts the marker server starts one.
    token = tokens.get(request.param)

    def send(case: AnyCase) -> int:
        case.headers["Accept-Encoding"] = "identity"  # Called in process: nothing would decode it.
        case.headers.pop("Authorization", None)
        if token is not None:
            case.headers["Authorization"] = f"Token {token}"
        response = case.call()
        assert response.status_code != 500, response.text
        if request.param in ("anonymous", "nobody", "neighbour"):
            assert HIDDEN.encode() not in response.content, case.formatted_path
        if response.status_code == 503:  # Tests run without Redis.
            assert response.json()["code"] in NO_REDIS, response.text
        if response.status_code == 200 and "fields" in case.query:
            # Rows are cut on purpose: the form is that of the same answer as a whole.
            case.query = {name: given for name, given in case.query.items() if name != "fields"}
            response = case.call()
        case.validate_response(response, checks=CHECKS)
        return int(response.status_code)

    return send


def operations(tokens: dict[str, str]) -> list[Any]:
    document = schemathesis.openapi.from_wsgi(
        "/api/v1/schema/?format=json",
        get_wsgi_application(),
        headers={"Authorization": f"Token {tokens['viewer']}"},
    )
    listed: list[Any] = list(document.get_all_operations())
    return [operation.ok() for operation in listed]


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("answered", "examples"), CASES, indirect=["answered"])
def test_every_answer_is_documented_and_no_role_gets_more_than_it_may(
    answered: Answered,
    examples: int,
    mode: GenerationMode,
    tokens: dict[str, str],
    request: Any,
) -> None:
    role = request.node.callspec.params["answered"]
    operation_ids = [str(known) for known in Operation.objects.values_list("pk", flat=True)]
    tried = 0
    for operation in operations(tokens):
        if mode is GenerationMode.NEGATIVE and not _can_be_wrong(operation):
            continue

        @hypothesis.settings(max_examples=examples, phases=[hypothesis.Phase.generate])
        @hypothesis.given(
            case=operation.as_strategy(generation_mode=mode),
            slug=st.sampled_from(["trips", "rides", "trips", "rides", "hidden", None]),
            operation_id=st.sampled_from([*operation_ids, None]),
        )
        def try_out(case: AnyCase, slug: str | None, operation_id: str | None) -> None:
            nonlocal tried
            if slug is not None and "slug" in case.path_parameters:
                case.path_parameters["slug"] = slug
            if operation_id is not None and "operation_id" in case.path_parameters:
                case.path_parameters["operation_id"] = operation_id
            status = answered(case)
            tried += 1
            if status < 300:
                assert role not in ("anonymous", "nobody"), case.formatted_path
            if role == "anonymous":
                assert status in (401, 404, 405), (status, case.formatted_path)

        try_out()
    assert tried > 20


def _can_be_wrong(operation: Any) -> bool:
    """Whether it takes anything that could break a rule of the document."""
    raw = operation.definition.raw
    places = {parameter["in"] for parameter in raw.get("parameters", ())}
    return "requestBody" in raw or bool(places & {"query"})
