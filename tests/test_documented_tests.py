"""The tables of some documents name code and tests that exist.

Files are parsed, not imported: a name in the documents is `path::name` or `path::Class.name`.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from django.urls import Resolver404, resolve

from controlplane.node.effective import NODE_SETTINGS
from workers.options.catalogue import CATALOGUE

REPOSITORY = Path(__file__).resolve().parents[1]
SINK = REPOSITORY / "docs" / "sink-protocol.md"
REGRESSIONS = REPOSITORY / "docs" / "regressions.md"
INVARIANTS = REPOSITORY / "docs" / "invariants.md"
SECURITY = REPOSITORY / "docs" / "security.md"
COVERAGE = REPOSITORY / "docs" / "coverage.md"
STORES = REPOSITORY / "docs" / "stores.md"
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
    "XK": 13,
    "XL": 6,
    "XM": 6,
}
THREATS = {"T": 35}
RULES = {"TL": 12, "RB": 6, "KS": 11}
STATES = ("done", "partly", "not done")
TESTS_MAX = 2
ADDRESS = re.compile(r"`(?:GET )?(/(?:t/|api/|sql)[^`]*)`")
EXAMPLES = {"<table>": "trips", "<instant>": "20260101000000000", "<sink>": "orders"}
NO_OPTIONS = {
    *("hoodie.markers.timeline_server_based.batch.num_threads",),
    *("hoodie.markers.timeline_server_based.batch.interval_ms",),
}
"""Options of Hudi that the coverage names because Sluice does not have them."""
SETTING = re.compile(r"`((?:hoodie\.|SLUICE_)[\w.]+)`")


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
    "document",
    [REGRESSIONS, INVARIANTS, SINK, SECURITY, COVERAGE, STORES],
    ids=lambda path: path.name,
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


def read_coverage() -> list[list[str]]:
    """Return the rows of all sections of the coverage page."""
    rows: list[list[str]] = []
    for section in COVERAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        lines = [line for line in section.splitlines() if line.startswith("|")][2:]
        assert lines, section
        rows += [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
    return rows


def test_every_requirement_has_its_cells_and_a_state() -> None:
    for row in read_coverage():
        assert len(row) == 5, row
        assert all(row), row
        requirement, _, code, tests, state_and_reason = row
        state, _, reason = state_and_reason.partition(": ")
        assert state in STATES, requirement
        assert reason or state == "done", requirement
        assert NAMED.sub("", code).strip(", ") in ("", "none"), requirement
        assert NAMED.sub("", tests).strip(", ") in ("", "none"), requirement
        if state != "not done":
            names = [name for _, name in NAMED.findall(tests)]
            assert 1 <= len(names) <= TESTS_MAX, requirement
            assert all(name.startswith("test_") for name in names), requirement
            assert NAMED.search(code), requirement


def test_no_requirement_is_listed_twice() -> None:
    requirements = [row[0] for row in read_coverage()]

    assert len(requirements) == len(set(requirements))


def test_the_coverage_counts_its_states() -> None:
    states = [row[4].partition(":")[0] for row in read_coverage()]
    counts = dict(
        re.findall(r"^\| `([a-z ]+)` \| (\d+) \|", COVERAGE.read_text("utf-8"), re.MULTILINE)
    )

    assert counts == {state: str(states.count(state)) for state in STATES}


def test_pages_addresses_and_settings_of_the_coverage_exist() -> None:
    text = COVERAGE.read_text(encoding="utf-8")
    settings = {setting.name for setting in NODE_SETTINGS}
    settings |= {key for _, options in CATALOGUE for key in options}

    missing = [address for address in set(ADDRESS.findall(text)) if not is_address(address)]
    assert missing == []
    assert set(SETTING.findall(text)) - settings == NO_OPTIONS


def is_address(address: str) -> bool:
    """Return whether the address leads to a page or to a part of the API."""
    for placeholder, example in EXAMPLES.items():
        address = address.replace(placeholder, example)
    try:
        resolve(address)
    except Resolver404:
        return False
    return True
