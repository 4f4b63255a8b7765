"""The wheel requires what `requirements*.txt` pin, in ranges that begin at the tested version."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from workers.installation import EXTRAS

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = ("otel", "polars")
ONLY_PINNED = {"setuptools"}
"""Others require it; it is pinned because `make setup` resolves nothing."""


def load_pins(name: str, *, direct: bool = False) -> dict[str, str]:
    """Return the version of each package in a requirements file, or only of those used directly."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if direct:
        text = text.partition("# Needed by those above.")[0]
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    pinned = [Requirement(line) for line in lines if line and not line.startswith("-r ")]
    return {canonicalize_name(item.name): str(item.specifier).removeprefix("==") for item in pinned}


def load_ranges(*, optional: bool) -> list[Requirement]:
    """Return what the wheel requires: of the optional extras, or of the engine and the others."""
    extras = PROJECT["optional-dependencies"]
    lines = [] if optional else [*PROJECT["dependencies"]]
    for extra, ranges in extras.items():
        if (extra in OPTIONAL) == optional:
            lines += ranges
    named = [Requirement(line) for line in lines]
    return [requirement for requirement in named if requirement.name != PROJECT["name"]]


@pytest.mark.parametrize("optional", [False, True])
def test_each_range_begins_at_the_pinned_version(optional: bool) -> None:
    files = [f"requirements-{name}.txt" for name in OPTIONAL] if optional else ["requirements.txt"]
    pins = {name: at for file in files for name, at in load_pins(file).items()}
    ranges = load_ranges(optional=optional)

    least = {
        canonicalize_name(item.name): re.findall(r">=([^,]+)", str(item.specifier))
        for item in ranges
    }

    assert ranges
    assert {name: [pins.get(name)] for name in least} == least
    outside = [item for item in ranges if pins[canonicalize_name(item.name)] not in item.specifier]
    assert outside == []


def test_the_extras_name_exactly_the_packages_that_are_used_directly() -> None:
    used = load_pins("requirements.txt", direct=True).keys() - ONLY_PINNED

    assert {canonicalize_name(item.name) for item in load_ranges(optional=False)} == used


def test_the_server_has_every_extra_but_the_optional_ones() -> None:
    extras = PROJECT["optional-dependencies"]
    [itself] = [item for item in map(Requirement, extras["server"]) if item.name == "sluice"]

    assert itself.extras == extras.keys() - {"server", *OPTIONAL}


def test_a_missing_package_names_an_extra_that_requires_it() -> None:
    extras = PROJECT["optional-dependencies"]
    named = {
        (canonicalize_name(item.name), extra)
        for extra, ranges in extras.items()
        for item in map(Requirement, ranges)
    }
    behind = {"grpc": "pyspark", "py4j": "pyspark"}  # They come with it.

    missing = [
        package
        for package, extra in EXTRAS.items()
        if (canonicalize_name(behind.get(package, package)), extra) not in named
    ]

    assert missing == []
