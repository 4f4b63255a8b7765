"""The list of survivors is exact, and drawn mutants die."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.mutation.mutants import REPOSITORY, all_mutants
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


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_no_drawn_mutant_survives_but_those_that_are_explained() -> None:
    command = [sys.executable, "-m", "tests.mutation", "--seed", os.environ["SLUICE_TEST_SEED"]]

    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
