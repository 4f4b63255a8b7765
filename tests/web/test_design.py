"""The design language is what the style sheets hold: contrast, densities, no colour beside the
tokens.
"""

from __future__ import annotations

import re

import pytest

from tests.support.contrast import ROLES, THEMES, TOKENS, Role, colours, table, worst

PROJECT = TOKENS.parents[4]
SHEETS = sorted(path for path in (PROJECT / "web").rglob("*.css") if path != TOKENS)
TARGET_REM = 1.5
"""24 px: the least that WCAG 2.2 lets be pressed."""


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_colour_stands_out_from_its_grounds(role: Role, theme: str) -> None:
    ratio, ground = worst(role, theme)

    assert ratio >= role.least, f"{role.name} on {ground}: {ratio:.2f}"


def test_night_by_choice_and_by_the_system_are_the_same() -> None:
    assert colours("night") == colours("night, by the system")
    assert set(colours("night")) == set(colours("day"))


def test_figures_of_the_document_are_those_of_the_tokens() -> None:
    assert table() in (PROJECT / "docs/design.md").read_text()


def test_no_sheet_has_a_colour_of_its_own() -> None:
    own = {
        path.name: literal
        for path in SHEETS
        for literal in re.findall(r"(?<![\w&-])#[0-9a-fA-F]{3,8}\b(?=[;, )])", path.read_text())
    }

    assert own == {}


def test_what_is_pressed_is_large_enough_in_every_density() -> None:
    sizes = re.findall(r"--(?:control|control-small|target|row): ([\d.]+)rem", TOKENS.read_text())

    assert len(sizes) >= 8
    assert min(map(float, sizes)) >= TARGET_REM


def test_every_token_that_is_used_exists() -> None:
    shared = TOKENS.read_text() + (TOKENS.parent / "base.css").read_text()
    known = set(re.findall(r"(--[\w-]+):", shared))
    for path in SHEETS:
        text = path.read_text()
        own = set(re.findall(r"(--[\w-]+):", text))
        assert set(re.findall(r"var\((--[\w-]+)", text)) <= known | own, path.name
