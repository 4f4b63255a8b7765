"""Threat T28: what is installed is pinned by version and by the hash of its file. No advisory is
looked up here, which takes the network: `manage.py sbom` writes what a scanner is given.
"""

from __future__ import annotations

import io
import json
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

from django.core.management import call_command
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from controlplane.node.management.commands.sbom import LOCK, pinned

ROOT = Path(__file__).resolve().parents[2]
LEAST = {
    "celery": "5.2.2", "django": "5.2.8", "fastavro": "1.9.0", "pyarrow": "14.0.1",
    "pyspark": "3.5.2", "requests": "2.32.4", "urllib3": "2.5.0", "redis": "4.5.4",
}  # fmt: skip
"""The first versions without the holes of section 4.3 of the security page, and later ones."""


def requirements() -> dict[str, str]:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    named = [Requirement(text) for line in lines if (text := line.partition("#")[0].strip())]
    assert all(re.fullmatch(r"==[^*]+", str(one.specifier)) for one in named)
    return {canonicalize_name(one.name): str(one.specifier)[2:] for one in named}


def test_every_requirement_is_locked_in_its_version_with_hashes() -> None:
    lock = pinned(LOCK.read_text())

    differing = lock.keys() ^ requirements().items()
    assert differing == set(), "run `make lock`, which writes requirements.lock anew"
    assert [package for package, digests in lock.items() if not digests] == []
    assert "://" not in LOCK.read_text()


def test_nothing_comes_from_elsewhere_than_the_index() -> None:
    for name in (
        "requirements.txt",
        "requirements-otel.txt",
        "requirements-polars.txt",
        "requirements-dev.txt",
    ):
        text = (ROOT / name).read_text()
        assert not re.search(r"^\s*(--|-[a-qs-z]|git\+|https?:|file:)| @ ", text, re.MULTILINE), (
            name
        )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["build-system"]["requires"] == ["hatchling>=1.27"]


def test_what_runs_here_is_what_is_pinned() -> None:
    wrong = {name: at for name, at in requirements().items() if version(name) != at}

    assert wrong == {}


def test_no_pin_is_older_than_the_holes_that_are_known_of() -> None:
    old = {name for name, least in LEAST.items() if Version(requirements()[name]) < Version(least)}

    assert old == set()


def test_the_bill_of_materials_names_every_package() -> None:
    printed = io.StringIO()
    call_command("sbom", stdout=printed)

    document = json.loads(printed.getvalue())
    named = {(one["name"], one["version"]) for one in document["components"]}
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    assert named == set(requirements().items())
