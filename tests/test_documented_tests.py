"""The tables of some documents name code and tests that exist.

Files are parsed, not imported: a name in the documents is `path::name` or `path::Class.name`.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
SINK = REPOSITORY / "docs" / "sink-protocol.md"
REGRESSIONS = REPOSITORY / "docs" / "regressions.md"
INVARIANTS = REPOSITORY / "docs" / "invariants.md"
SECURITY = REPOSITORY / "docs" / "security.md"
NAMED = re.compile(r"`([\w/]+\.py)::([\w.]+)`")
BUGS = {"A": 14, "B": 17, "C": 4, "D": 11, "E": 4, "F": 6, "G": 5, "H": 7, "K": 16}
OUTSIDE = {
    "XA": 8,
    "XB": 10,
    "XC": 5,
    "XD": 5,
    "XE": 4,
    "XF": 5,
    "XG": 3,
    "XH": 4,
    "XJ": 31,
    "XK": 14,
    "XL": 3,
    "XM": 2,
}
THREATS = {"T": 34}
RULES = {"TL": 12, "RB": 6, "KS": 11}


def rows(document: Path) -> dict[str, list[str]]:
    """Id -> the other cells, of every table row that begins with an id."""
    cells_by_row: dict[str, list[str]] = {}
    for line in document.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and re.fullmatch(r"[A-Z]+[0-9]+", cells[0]):
            assert cells[0] not in cells_by_row, f"{cells[0]} stands twice"
            cells_by_row[cells[0]] = cells[1:]
    return cells_by_row


def numbered(kinds: dict[str, int]) -> set[str]:
    return {f"{kind}{number}" for kind, most in kinds.items() for number in range(1, most + 1)}


@cache
def names_of(path: str) -> frozenset[str]:
    """Functions, classes and `Class.method` of one file; none when there is no such file."""
    file = REPOSITORY / path
    if not file.is_file():
        return frozenset()
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (one for one in node.body if isinstance(one, ast.FunctionDef))
            names |= {f"{node.name}.{method.name}" for method in methods}
    return frozenset(names)


@pytest.mark.parametrize(
    "document", [REGRESSIONS, INVARIANTS, SINK, SECURITY], ids=lambda path: path.name
)
def test_all_code_that_a_document_names_exists(document: Path) -> None:
    named = NAMED.findall(document.read_text(encoding="utf-8"))

    assert named
    assert [f"{path}::{name}" for path, name in named if name not in names_of(path)] == []


def test_every_bug_has_a_test() -> None:
    regressions = rows(REGRESSIONS)

    assert set(regressions) - numbered(OUTSIDE) == numbered(BUGS)
    for bug, (*_, shown) in regressions.items():
        assert any(name.startswith("test_") for _, name in NAMED.findall(shown)), bug


def test_every_threat_has_its_controls_and_a_test() -> None:
    threats = rows(SECURITY)

    assert set(threats) == numbered(THREATS)
    for threat, (_, control, kept, tests) in threats.items():
        assert control, threat
        assert kept, threat
        assert any(name.startswith("test_") for _, name in NAMED.findall(tests)), threat


def test_every_fault_found_from_outside_says_why_no_suite_saw_it() -> None:
    faults = {fault: cells for fault, cells in rows(REGRESSIONS).items() if fault.startswith("X")}

    assert [fault for fault, cells in faults.items() if len(cells) != 3 or not all(cells)] == []


def test_every_invariant_is_asserted_by_code_and_attacked_by_a_test() -> None:
    invariants = rows(INVARIANTS)

    assert numbered(RULES) <= set(invariants)
    for rule in sorted(numbered(RULES)):
        *_, asserted, attacked = invariants[rule]
        code, tests = NAMED.findall(asserted), NAMED.findall(attacked)
        assert code, f"{rule} is asserted nowhere"
        assert not any(name.startswith("test_") for _, name in code), rule
        assert tests, f"{rule} is attacked nowhere"
        assert all(name.startswith("test_") for _, name in tests), rule
