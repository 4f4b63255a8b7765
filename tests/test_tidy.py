"""Rules of the repository that no linter knows. A failure lists every place: one run is enough."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.source_files import REPOSITORY, modules, sources, texts

LINES_MAX = 800
COLUMNS_MAX = 120
GENERATED = {"workers/public/sluice_client/rows.py"}
"""By `manage.py client_rows`: nobody reads it from beginning to end."""
IMPORTS_MAX = 25
ENTRY_POINTS = ("workers/lakehouse.py",)
"""They hand on what others do, and so name all of these."""
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


def test_no_python_file_is_longer_than_800_lines() -> None:
    lines_of = {name: text.count("\n") for name, text in sources() if name not in GENERATED}
    long = {name: lines for name, lines in lines_of.items() if lines > LINES_MAX}

    assert not long, long


def test_every_module_says_what_it_is() -> None:
    silent = [module.name for module in modules() if not module.docstring]

    assert silent == []


def test_the_engine_opens_no_file_past_its_storage_port() -> None:
    opened = [
        f"{module.name}:{line}"
        for module in modules()
        if module.name.startswith("workers/") and not module.name.startswith(MAY_OPEN_FILES)
        for line in module.opened
    ]

    assert opened == []


def test_no_file_knows_more_than_twenty_five_others() -> None:
    known = {
        module.name: count
        for module in modules()
        if module.name.startswith(("workers/", "controlplane/", "web/"))
        and module.name not in ENTRY_POINTS
        if (count := len(module.imports)) > IMPORTS_MAX
    }

    assert known == {}


def test_only_the_table_layout_spells_paths_below_hoodie() -> None:
    spelled = [
        f"{module.name}:{line}: {text!r}"
        for module in modules()
        if module.name.startswith(("workers/", "controlplane/"))
        and module.name != "workers/table_layout.py"
        for line, text in module.hoodie
    ]

    assert spelled == []


@pytest.mark.parametrize("banned", [*MACHINE_PATHS, *REGISTRY_HOSTS])
def test_no_file_names_a_machines_path_or_a_registrys_host(banned: str) -> None:
    naming = [name for name, text in texts() if banned in text]

    assert naming == []


def test_every_link_of_the_documents_leads_somewhere() -> None:
    broken = [
        f"{name}: {target}"
        for name, text in texts()
        if name.endswith(".md")
        for target in LINK.findall(text)
        if not _resolves(REPOSITORY / name, target)
    ]

    assert broken == []


def test_no_prose_of_the_documents_is_wider_than_120_columns() -> None:
    wide = [
        f"{name}:{number}"
        for name, text in texts()
        if name.endswith(".md")
        for number, line in _prose(text)
        if len(line) > COLUMNS_MAX and len(line.lstrip("-* ").split()) > 1
    ]

    assert wide == []


def test_every_path_in_the_code_map_exists() -> None:
    page = (REPOSITORY / "docs" / "code-map.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:workers|controlplane|web|templates|bench)/[^`]+)`", page)

    assert len(paths) > 80
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []


def test_the_code_map_lists_every_package_of_the_engine_and_the_control_plane() -> None:
    page = (REPOSITORY / "docs" / "code-map.md").read_text(encoding="utf-8")
    packages = page.partition("## Five actions")[0]
    folders = {
        "/".join(name.split("/")[:2])
        for name, _ in sources()
        if name.startswith(("workers/", "controlplane/")) and name.count("/") > 1
    }

    assert sorted(folder for folder in folders if f"`{folder}`" not in packages) == []


def test_the_site_of_the_documents_lists_each_of_them() -> None:
    """MkDocs checks this too, but `make docs` is not part of every run of the tests."""
    navigation = (REPOSITORY / "docs" / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"([\w./-]+\.md)$", navigation, re.MULTILINE)
    folder = REPOSITORY / "docs"

    assert sorted(listed) == sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*.md")
    )


def test_requirements_are_pinned_exactly_and_once() -> None:
    lines = [
        line.split("#")[0].strip()
        for name in (
            "requirements.txt",
            "requirements-otel.txt",
            "requirements-polars.txt",
            "requirements-dev.txt",
        )
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


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """Lines of neither code nor tables, with their numbers."""
    is_code = False
    for number, line in enumerate(text.splitlines(), start=1):
        is_fence = line.lstrip().startswith("```")
        is_code ^= is_fence
        if not (is_fence or is_code or line.lstrip().startswith("|")):
            yield number, line


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
