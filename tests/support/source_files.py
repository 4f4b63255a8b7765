"""What the rules of the repository look at: its files, and what stands in each Python file."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
HOODIE = re.compile(r"\\?\.hoodie(/|$)")


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
class Function:
    """What the rules look at in a function or method."""

    name: str
    docstring: str | None
    is_property: bool


@dataclass(frozen=True, slots=True)
class Module:
    """What the rules look at in a Python file."""

    name: str
    docstring: str | None
    said: list[tuple[int, str]]
    """Line and docstring of every public class and function."""
    classes: list[str]
    bindings: list[tuple[int, str]]
    functions: list[Function]
    loop_variables: list[str]
    """Names that `for` binds, in statements and comprehensions."""
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
    return tuple(parse_module(name, ast.parse(text), known) for name, text in sources())


def parse_module(name: str, tree: ast.Module, known: set[str]) -> Module:
    """Return what the rules check in a file. `known`: dotted names of the modules of ours."""
    nodes = _walk(tree)
    return Module(
        name=name,
        docstring=ast.get_docstring(tree),
        said=list(_public_docstrings(nodes)),
        classes=[node.name for node in nodes if isinstance(node, ast.ClassDef)],
        bindings=list(bindings_of(nodes)),
        functions=[
            Function(node.name, ast.get_docstring(node), _is_property(node))
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ],
        loop_variables=[
            name.id
            for node in nodes
            if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension)
            for name in ast.walk(node.target)
            if isinstance(name, ast.Name)
        ],
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


def _walk(tree: ast.AST) -> list[ast.AST]:
    """Return the nodes of `ast.walk` in its order, without contexts such as `Load`, but faster."""
    nodes = [tree]
    for node in nodes:
        for value in vars(node).values():
            if isinstance(value, list):
                nodes.extend(one for one in value if isinstance(one, ast.AST))
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                nodes.append(value)
    return nodes


def bindings_of(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
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


def _public_docstrings(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if not node.name.startswith("_") and (text := ast.get_docstring(node)):
                    yield node.lineno, text


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        isinstance(decorator, ast.Name | ast.Attribute)
        and ast.unparse(decorator).endswith(("property", ".setter"))
        for decorator in function.decorator_list
    )


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
