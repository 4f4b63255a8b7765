"""Every code of an error is declared once and documented, and its status is the declared one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rest_framework import exceptions

from controlplane.api.bodies import BodyTooLarge
from controlplane.api.problems import PROBLEMS
from controlplane.errors import ControlPlaneError

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "api.md"
OF_REST = [
    *(exceptions.ParseError, exceptions.AuthenticationFailed, exceptions.NotAuthenticated),
    *(exceptions.PermissionDenied, exceptions.NotFound, exceptions.MethodNotAllowed),
    *(exceptions.NotAcceptable, exceptions.UnsupportedMediaType, exceptions.Throttled),
    BodyTooLarge,
]


def of_ours(kind: type[ControlPlaneError] = ControlPlaneError) -> Iterator[str]:
    yield kind.code
    for narrower in kind.__subclasses__():
        yield from of_ours(narrower)


def test_every_error_of_the_control_plane_is_declared() -> None:
    assert set(of_ours()) <= set(PROBLEMS)


@pytest.mark.parametrize("kind", OF_REST, ids=lambda kind: kind.__name__)
def test_every_error_of_the_framework_is_declared_with_its_status(
    kind: type[exceptions.APIException],
) -> None:
    assert PROBLEMS[kind.default_code].status == kind.status_code


def test_the_document_lists_every_code_with_status_title_and_remedy() -> None:
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    documented = {row[0].strip("`"): row[1:] for row in cells if re.match(r"`[a-z_]+`\Z", row[0])}

    assert documented == {
        code: [str(kind.status), kind.title, kind.remedy] for code, kind in PROBLEMS.items()
    }
