"""The list of survivors is exact, drawn mutants die, and who could notice one is known."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutation.mutants import REPOSITORY, Mutant, all_mutants
from tests.mutation.reach import Reach
from tests.mutation.survivors import explained
from tests.mutation.targets import TARGETS


def test_every_target_and_every_explained_survivor_is_there() -> None:
    names = {mutant.name for mutant in all_mutants()}

    assert sorted(explained().keys() - names) == []
    for target in TARGETS:
        assert [test for test in target.tests if not (REPOSITORY / test).exists()] == []


def test_no_two_mutants_have_the_same_name() -> None:
    mutants = all_mutants()

    assert len({mutant.name for mutant in mutants}) == len(mutants) > 1000


def test_a_mutant_stands_in_the_body_of_its_function() -> None:
    for mutant in all_mutants():
        lines = (REPOSITORY / mutant.module).read_text(encoding="utf-8").splitlines()
        if mutant.body is not None:
            assert mutant.line in [lines[number - 1].strip() for number in mutant.body], mutant.name


MODULE = """
def inner():
    return 1

def outer():
    return 2
"""
TESTS = """
import subprocess, sys, pytest, changed

@pytest.fixture(scope="module")
def shared():
    return changed.inner()

def test_first(shared): pass
def test_second(shared): pass
def test_outer(): changed.outer()
def test_process(): subprocess.run([sys.executable, "-c", ""], check=True)
"""
WATCHED = """
import sys
from pathlib import Path
import pytest
from tests.mutation.reach import Watch
sys.path.insert(0, ".")
with Watch(Path.cwd(), ["changed.py"]) as watch:
    pytest.main(["-q", "-p", "no:cacheprovider", "-c", "pytest.ini", "test_it.py"], [watch])
watch.reach().write(Path("reach.json"))
"""


@pytest.mark.slow
def test_watched_run_says_which_tests_run_a_function(tmp_path: Path) -> None:
    """A shared fixture is the doing of all who use it; processes, and imports, are everybody's."""
    for name, text in [("changed.py", MODULE), ("test_it.py", TESTS), ("pytest.ini", "[pytest]")]:
        (tmp_path / name).write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}

    subprocess.run([sys.executable, "-c", WATCHED], cwd=tmp_path, env=environment, check=True)

    reach = Reach.read(tmp_path / "reach.json")
    first, second, outer, process = (
        f"test_it.py::test_{name}" for name in ("first", "second", "outer", "process")
    )
    assert reach.by_line["changed.py"] == {
        2: {first, second, outer, process},
        3: {first, second},
        5: {first, second, outer, process},
        6: {outer},
    }
    assert reach.always == {process}
    of_outer = Mutant("changed.py", "outer", "return 2", "NumberReplacer", 1, 0, range(6, 7))
    assert set(reach.tests_for(of_outer)) == {outer, process}
    assert set(reach.tests_for(replace(of_outer, body=None))) == {first, second, outer, process}


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_no_drawn_mutant_survives_but_those_that_are_explained() -> None:
    command = [sys.executable, "-m", "tests.mutation", "--seed", os.environ["SLUICE_TEST_SEED"]]

    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
