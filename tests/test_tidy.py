"""Rules of the repository that no linter knows. A failure lists every place: one run is enough."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
LINES_MAX = 400
IMPORTS_MAX = 25
ENTRY_POINTS = ("workers/lakehouse.py",)
"""They hand on what others do, and so name all of these."""
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
VAGUE_NAMES = ("told", "tell", "one", "found", "asked", "standing")
"""They say how a value came about, not what it is. Comprehensions may have them: there the whole
life of a name fits on a line.
"""
KEPT_NAMES = {
    ("controlplane/mirror/models.py", "found"),
    ("workers/storage/object_reader.py", "tell"),
}
"""A column, whose name only a migration changes, and a method that Python asks of files."""
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HOODIE = re.compile(r"\\?\.hoodie(/|$)")
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


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Name and text of every file that is text."""
    return tuple(_texts())


def _texts() -> Iterator[tuple[str, str]]:
    for path in tracked():
        try:
            yield str(path.relative_to(REPOSITORY)), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def sources() -> list[tuple[str, str]]:
    """Name and text of every Python file, migrations excepted: Django writes those."""
    return [
        (name, text)
        for name, text in texts()
        if name.endswith(".py") and "migrations" not in name.split("/")
    ]


@dataclass(frozen=True, slots=True)
class Module:
    """What the rules look at in a Python file."""

    name: str
    docstring: str | None
    classes: list[str]
    bindings: list[tuple[int, str]]
    opened: list[int]
    """Lines that call `open`."""
    imports: set[str]
    """Modules of ours."""
    hoodie: list[tuple[int, str]]
    """Line and text of what spells a path below `.hoodie`."""


@cache
def modules() -> tuple[Module, ...]:
    """Every file is parsed once for all rules; trees of all files would fill the memory."""
    known = {_module_of(name) for name, _ in sources()}
    return tuple(_looked_at(name, ast.parse(text), known) for name, text in sources())


def _looked_at(name: str, tree: ast.Module, known: set[str]) -> Module:
    nodes = list(ast.walk(tree))
    return Module(
        name=name,
        docstring=ast.get_docstring(tree),
        classes=[node.name for node in nodes if isinstance(node, ast.ClassDef)],
        bindings=list(_bindings(nodes)),
        opened=[
            node.lineno
            for node in nodes
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "open"
        ],
        imports=_own_imports(nodes, known),
        hoodie=[
            (node.lineno, str(node.value))
            for node in _strings_of_code(nodes)
            if HOODIE.search(str(node.value))
        ],
    )


def test_no_python_file_is_longer_than_400_lines() -> None:
    long = {name: lines for name, text in sources() if (lines := text.count("\n")) > LINES_MAX}

    assert not long, long


def test_every_module_says_what_it_is() -> None:
    silent = [module.name for module in modules() if not module.docstring]

    assert silent == []


def test_no_class_is_named_by_a_word_that_says_nothing() -> None:
    vague = [
        f"{module.name}: {name}"
        for module in modules()
        for name in module.classes
        if name.endswith(BANNED_WORDS)
    ]

    assert vague == []


def test_no_name_says_only_how_its_value_came_about() -> None:
    vague = [
        f"{module.name}:{line}: {name}"
        for module in modules()
        for line, name in module.bindings
        if name in VAGUE_NAMES and (module.name, name) not in KEPT_NAMES
    ]

    assert vague == []


BOUND = """
import a as name
name = 0
for name in a: ...
with a as name: ...
a.name = 0
try: ...
except E as name: ...
match a:
    case [*name]: ...
    case {**name}: ...
    case B(k) as name: ...
    case name: ...
def name(): ...
async def name(): ...
class name: ...
class C: name: int
def f(name, /): ...
def f(*name): ...
def f(*, name=0): ...
def f(**name): ...
lambda name: 0
[b for b in a if (name := b)]
"""
"""Every line with `name` in it binds it once."""


def bound_in(text: str) -> list[tuple[int, str]]:
    return list(_bindings(list(ast.walk(ast.parse(text)))))


def test_a_name_is_looked_for_wherever_it_is_bound() -> None:
    lines = [number for number, line in enumerate(BOUND.splitlines(), 1) if "name" in line]

    assert [line for line, name in sorted(bound_in(BOUND)) if name == "name"] == lines
    assert bound_in("[name for name in a if name]") == []


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


def test_every_path_that_the_house_page_names_is_there() -> None:
    page = (REPOSITORY / "docs" / "house.md").read_text(encoding="utf-8")
    walks, _, moved = page.partition("| then | now |")
    now = "".join(line.split("|")[2] for line in moved.splitlines() if line.startswith("| `"))
    paths = re.findall(r"`((?:workers|controlplane|web|templates|bench)/[^`]+)`", walks + now)

    assert len(paths) > 100
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []


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


def _bindings(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Line and name of all that is bound, the targets of comprehensions excepted."""
    spared = {
        node
        for comprehension in nodes
        if isinstance(comprehension, ast.comprehension)
        for node in ast.walk(comprehension.target)
    }
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if node not in spared:
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield node.lineno, name
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                yield node.lineno, name


def _module_of(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _own_imports(nodes: Sequence[ast.AST], modules: set[str]) -> set[str]:
    """The modules of ours that a file names, wherever it imports them."""
    named: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            named |= (members & modules) or {node.module}
        elif isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
    return named & modules


def _strings_of_code(nodes: Sequence[ast.AST]) -> Iterator[ast.Constant]:
    """Without docstrings and other bare texts."""
    bare = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node


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
