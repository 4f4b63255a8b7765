"""Look for faults with new seeds: `make explore MINUTES=20`.

The tests that draw by the seed of the run are tried in an order that the seed gives, a few files at
a time, until the time is over. Each failing case is printed as a command that repeats it. This
never blocks a submission: a fault that is found is repaired, and pinned by name in a fixed test.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence

from tests.gate import REPOSITORY, print_line, run_pytest
from tests.support.run_report import Failure
from tests.support.sampling import EXPLORE, SEED, draws_by_seed

SELECTION = "not (interop or browser or soak)"
FILES_AT_ONCE = 6
_NO_TESTS = 5


def explore(minutes: float, seed: int | None, jobs: int) -> list[tuple[int, Failure]]:
    """Return each failure with the seed of its run."""
    ends_at = time.monotonic() + 60 * minutes
    failures = list[tuple[int, Failure]]()
    passed = 0
    for run_seed, files in _chunks(seed):
        if time.monotonic() > ends_at:
            return failures
        os.environ[SEED] = str(run_seed)
        os.environ[EXPLORE] = "1"
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs), "-m", SELECTION, *files]
        report, returncode = run_pytest(command)
        if returncode not in (0, _NO_TESTS) and not report.failures:
            raise SystemExit(f"explore: pytest ended with {returncode} and reported no failure")
        passed += report.passed
        failures += [(run_seed, failure) for failure in report.failures]
        left_min = max(0.0, (ends_at - time.monotonic()) / 60)
        counts = f"{passed} passed, {len(failures)} failed"
        print_line(f"explore: seed {run_seed}, {counts}, {left_min:.0f} minutes left")
    return failures


def _chunks(seed: int | None) -> Iterator[tuple[int, list[str]]]:
    """Without a seed, pass after pass with a new one; with a seed, one pass."""
    while True:
        run_seed = random.SystemRandom().randrange(2**32) if seed is None else seed
        files = [str(path.relative_to(REPOSITORY)) for path in draws_by_seed()]
        random.Random(run_seed).shuffle(files)
        for start in range(0, len(files), FILES_AT_ONCE):
            yield run_seed, files[start : start + FILES_AT_ONCE]
        if seed is not None:
            return


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.explore", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="how long to look")
    parser.add_argument("--seed", type=int, help="one pass with this seed")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    failures = explore(options.minutes, options.seed, options.jobs)
    for run_seed, failure in failures:
        print_line(f"\n{failure.error}")
        print_line(f"{SEED}={run_seed} {EXPLORE}=1 {sys.executable} -m pytest '{failure.test}'")
    print_line(f"\nexplore: {len(failures)} failing cases")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
