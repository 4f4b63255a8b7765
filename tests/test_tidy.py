"""Rules of the repository that no linter knows. A failure lists every place: one run is enough."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
LINES_MAX = 400
BANNED_WORDS = ("Manager", "Helper", "Utils", "Util")
# In pieces, so that this file does not contain what it looks for.
MACHINE_PATHS = tuple("/" + name + "/" for name in ("work", "root"))
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("crates", "io"),
        ("maven", "org"),
        ("golang", "org"),
        ("debian", "org"),
    )
)
# These are the ports, and programs that are started as processes of their own.
MAY_OPEN_FILES = ("workers/storage/", "workers/spark/", "workers/clock.py")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)


@cache
def tracked() -> tuple[Path, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("this is no git checkout, so nobody knows which files belong to it")
    names = [name for name in listed.stdout.decode().split("\0") if name]
    return tuple(REPOSITORY / name for name in names if (REPOSITORY / name).is_file())


def sources() -> list[tuple[str, str]]:
    """Name and text of every Python file, migrations excepted: Django writes those."""
    return [
        (str(path.relative_to(REPOSITORY)), path.read_text(encoding="utf-8"))
        for path in tracked()
        if path.suffix == ".py" and "migrations" not in path.parts
    ]


def texts() -> Iterator[tuple[str, str]]:
    for path in tracked():
        try:
            yield str(path.relative_to(REPOSITORY)), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def test_no_python_file_is_longer_than_400_lines() -> None:
    long = {name: lines for name, text in sources() if (lines := text.count("\n")) > LINES_MAX}

    assert not long, long


def test_every_module_says_what_it_is() -> None:
    silent = [name for name, text in sources() if not ast.get_docstring(ast.parse(text))]

    assert silent == []


def test_no_class_is_named_by_a_word_that_says_nothing() -> None:
    vague = [
        f"{name}: {node.name}"
        for name, text in sources()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef) and node.name.endswith(BANNED_WORDS)
    ]

    assert vague == []


def test_the_engine_opens_no_file_past_its_storage_port() -> None:
    opened = [
        f"{name}:{node.lineno}"
        for name, text in sources()
        if name.startswith("workers/") and not name.startswith(MAY_OPEN_FILES)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
    ]

    assert opened == []


@pytest.mark.parametrize("banned", [*MACHINE_PATHS, *REGISTRY_HOSTS])
def test_no_file_names_a_machines_path_or_a_registrys_host(banned: str) -> None:
    found = [name for name, text in texts() if banned in text]

    assert found == []


def test_every_link_of_the_documents_leads_somewhere() -> None:
    broken = [
        f"{name}: {target}"
        for name, text in texts()
        if name.endswith(".md")
        for target in LINK.findall(text)
        if not _resolves(REPOSITORY / name, target)
    ]

    assert broken == []


def test_requirements_are_pinned_exactly_and_once() -> None:
    lines = [
        line.split("#")[0].strip()
        for name in ("requirements.txt", "requirements-dev.txt")
        for line in (REPOSITORY / name).read_text(encoding="utf-8").splitlines()
    ]
    wanted = [line for line in lines if line and not line.startswith("-r ")]
    names = [re.split(r"[\[=]", line)[0].lower().replace("_", "-") for line in wanted]

    assert [line for line in wanted if not re.fullmatch(r"[\w.-]+(\[\w+\])?==[\w.]+", line)] == []
    assert sorted(names) == sorted(set(names))


def test_every_make_command_explains_itself() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    commands = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    explained = set(re.findall(r"^([a-z][a-z-]*):.*## \S", makefile, re.MULTILINE))
    phony = set(re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE))

    assert commands == explained == phony


def _resolves(document: Path, target: str) -> bool:
    if re.match(r"[a-z]+:", target):
        return True
    place, _, anchor = target.partition("#")
    path = (document.parent / place).resolve() if place else document
    if not path.exists():
        return False
    return not anchor or anchor in {
        _anchor(heading) for heading in HEADING.findall(path.read_text(encoding="utf-8"))
    }


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
