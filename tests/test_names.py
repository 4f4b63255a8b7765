"""Names and docstrings: what they may not be. A failure lists every place: one run is enough."""

from __future__ import annotations

import ast
import re

from tests.support.source_files import bindings_of, modules

BANNED_WORDS = ("Manager", "Helper", "Utils", "Util")
VAGUE_NAMES = ("told", "tell", "one", "found", "asked", "standing")
"""They say how a value came about, not what it is. Comprehensions may have them: there the whole
life of a name fits on a line.
"""
KEPT_NAMES = {
    ("controlplane/operations/sink_resets.py", "standing_instant"),
    ("controlplane/operations/sink_resets.py", "standing_topic_id"),
    ("workers/public/sluice_client/rows.py", "standing_instant"),
    ("workers/public/sluice_client/rows.py", "standing_topic_id"),
    ("workers/errors.py", "NotFound"),
    ("workers/errors.py", "TableNotFound"),
    ("workers/storage/object_store.py", "tell"),
    ("web/pages/not_found.py", "not_found"),
}
"""Columns, whose names only a migration changes, fields of the REST API, errors that others catch,
and a method that Python asks of files.
"""
VAGUE_PARTS = {"told", "tell", "tells", "telling", "found", "asked", "standing"}
"""No part of a name, either, where the code is no test: `told_at` says as little as `told`."""
SAY_FIRST_WHAT_THEY_ARE = ("workers/", "controlplane/", "web/")


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


def test_no_part_of_a_name_says_only_how_its_value_came_about() -> None:
    vague = [
        f"{module.name}:{line}: {name}"
        for module in modules()
        if not module.name.startswith("tests/")
        for line, name in module.bindings
        if VAGUE_PARTS & set(parts_of(name)) and (module.name, name) not in KEPT_NAMES
    ]

    assert vague == []


def parts_of(name: str) -> list[str]:
    """The words of `snake_case` and `CamelCase`, in small letters."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")


def test_a_vague_word_is_seen_anywhere_in_a_name() -> None:
    names = ("_told_at", "KeysTold", "is_standing", "TELLS_ALL")

    assert all(VAGUE_PARTS & set(parts_of(name)) for name in names)
    assert not VAGUE_PARTS & {*parts_of("outstanding"), *parts_of("Foundation")}


def test_a_docstring_begins_with_what_a_thing_is_or_does() -> None:
    backwards = [
        f"{module.name}:{line}: {text.splitlines()[0]}"
        for module in modules()
        if module.name.startswith(SAY_FIRST_WHAT_THEY_ARE)
        for line, text in module.said
        if text.startswith(("Raises ", "Of "))
    ]

    assert backwards == []


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
    return list(bindings_of(list(ast.walk(ast.parse(text)))))


def test_a_name_is_looked_for_wherever_it_is_bound() -> None:
    lines = [number for number, line in enumerate(BOUND.splitlines(), 1) if "name" in line]

    assert [line for line, name in sorted(bound_in(BOUND)) if name == "name"] == lines
    assert bound_in("[name for name in a if name]") == []
