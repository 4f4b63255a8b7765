"""How much of the protocol's packages a bounded part of the tests runs, lines and branches.

    python -m tests.support.protocol_coverage [options of pytest]

`pyproject.toml` names the tests, the packages and the floor of each. Ends with 1 when a package
lies below its floor or a test failed. Unless another is asked for, the seed of the run is always
the same, so that only what is committed, and Hypothesis, change the numbers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
NOT_HERE = "interop or browser or slow or soak or spark or kafka"
SEED = "SLUICE_TEST_SEED"


def main(options: Sequence[str]) -> int:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = settings["tool"]["sluice"]["coverage"]
    tests = _run(wanted["tests"], list(wanted["floors"]), options)
    if tests != 0:
        return tests
    return _compare(wanted["floors"])


def _run(tests: Sequence[str], packages: Sequence[str], options: Sequence[str]) -> int:
    (REPOSITORY / "var/coverage").mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pytest", *options, "-m", f"not ({NOT_HERE})", *tests]
    command += [f"--cov={package}" for package in packages]
    command += ["--cov-config=pyproject.toml", "--cov-report="]
    environment = {SEED: "0", **os.environ}
    return subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode


def _compare(floors: Mapping[str, int]) -> int:
    is_lower = False
    for package, floor in floors.items():
        percent = _percent(package)
        is_lower = is_lower or percent < floor
        verdict = "BELOW its floor" if percent < floor else "floor"
        sys.stdout.write(f"{package:30} {percent:6.2f} %  {verdict} {floor} %\n")
    return int(is_lower)


def _percent(package: str) -> float:
    command = [sys.executable, "-m", "coverage", "report", f"--include={package}/*"]
    command += ["--format=total", "--precision=2"]
    report = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, check=True)
    return float(report.stdout)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
