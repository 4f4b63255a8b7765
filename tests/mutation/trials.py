"""Tries mutants: in a copy of the repository the module is changed, and a fork runs its tests.

Copies, so that processes that tests start see the change too, and the checkout stays as it is.
Forks of one process that has loaded the libraries, so that a mutant costs a second more than its
tests, which are those that run its function (`reach.py`). Whatever a fork started and left behind
is ended with it.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import cache_from_source
from pathlib import Path

import psutil
import pytest

from tests.mutation.mutants import REPOSITORY, Mutant
from tests.mutation.reach import Choice, Reach, Watch
from tests.mutation.targets import TARGETS, Target, target_of
from tests.support.protocol_coverage import NOT_HERE

LIBRARIES = (
    *("anyio", "fastavro", "hypothesis.extra.numpy", "numpy", "obstore", "pandas", "psycopg"),
    *("pyarrow.parquet", "redis", "xdist"),
)
OURS = ("tests", "workers", "bench", "controlplane", "web")
OPTIONS = (
    *("-q", "-x", "-p", "no:cacheprovider", "-p", "no:django", "-o", "addopts="),
    *("--import-mode=importlib", "-m", f"not ({NOT_HERE})"),
)
SEED = "0"
"""Each mutant meets the same sampled cases as the unchanged code did."""
SLACK_S = 20.0
SLOWER_MAX = 4.0
"""It hangs where its tests, or one of them, last longer than so many times theirs and the slack."""
FAILED = "FAILED "
TIMED_OUT = b"from pytest-timeout"
POLL_S = 0.02


class Verdict(StrEnum):
    KILLED = "killed"
    HUNG = "hung"
    SURVIVED = "survived"


class TestsFail(Exception):
    """The tests of a target fail on the unchanged code, so they prove nothing of a changed one."""


@dataclass(slots=True)
class _Trial:
    mutant: Mutant
    pid: int
    copy: Path
    deadline_s: float
    later: list[list[str]]
    """What it is still to meet should it survive these tests."""


def try_all(
    mutants: Iterable[Mutant], *, folder: Path, jobs: int
) -> Iterator[tuple[Mutant, Verdict]]:
    """The verdict of each, as soon as it is known. Raises TestsFail before the first."""
    for library in LIBRARIES:
        importlib.import_module(library)
    mutants = list(mutants)
    copies = [_copy(folder / str(number)) for number in range(jobs)]
    changed = {mutant.module for mutant in mutants}
    reach_of = dict[str, Reach]()
    for target in TARGETS:
        if modules := changed.intersection(target.modules):
            reach_of |= dict.fromkeys(modules, _watched(target, copies[0]))
    waiting, running = mutants[::-1], list[_Trial]()
    try:
        while waiting or running:
            while waiting and copies:
                mutant = waiting.pop()
                if waves := _waves(mutant, reach_of[mutant.module]):
                    running.append(_begin(mutant, reach_of[mutant.module], waves, copies.pop()))
                else:
                    yield mutant, Verdict.SURVIVED
            time.sleep(POLL_S)
            for trial in list(running):
                verdict = _verdict(trial)
                if verdict is None:
                    continue
                running.remove(trial)
                reach = reach_of[trial.mutant.module]
                if verdict is Verdict.SURVIVED and trial.later:
                    running.append(_begin(trial.mutant, reach, trial.later, trial.copy))
                    continue
                reach.kills.update(_failed(trial))
                _restore(trial)
                copies.append(trial.copy)
                yield trial.mutant, verdict
    finally:
        for trial in running:
            _end(trial.pid)


def _copy(place: Path) -> Path:
    """What git knows of, as it lies in the checkout now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *OURS],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in ("pyproject.toml", *filter(None, listed.stdout.split("\0"))):
        if (REPOSITORY / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, place / name)
    return place


def _watched(target: Target, copy: Path) -> Reach:
    """What the tests of `target` run. Raises TestsFail when one of them fails."""
    place = copy / "reach.json"

    def run() -> int:
        with Watch(copy, target.modules) as watch:
            code = _run(target.tests, copy, watch)
        watch.reach().write(place)
        return code

    pid = _fork(run)
    _, status = os.waitpid(pid, 0)
    _end(pid)
    if os.waitstatus_to_exitcode(status) != 0:
        raise TestsFail((copy / "output").read_text(errors="replace")[-4000:])
    return Reach.read(place)


def _waves(mutant: Mutant, reach: Reach) -> list[list[str]]:
    """The tests that may notice it: the nearest, then the others, both as far as there are any."""
    nearest: list[str] = []
    farther: list[str] = []
    for test in reach.tests_for(mutant):
        is_near = test.startswith(target_of(mutant.module).nearest)
        (nearest if is_near else farther).append(test)
    return [tests for tests in (nearest, farther) if tests]


def _begin(mutant: Mutant, reach: Reach, waves: Sequence[list[str]], copy: Path) -> _Trial:
    tests, *later = waves
    (copy / mutant.module).write_text(mutant.source(), encoding="utf-8")
    _forget_bytecode(copy / mutant.module)
    files = sorted({test.partition("::")[0] for test in tests})
    seconds = [reach.seconds[test] for test in tests]
    deadline_s = time.monotonic() + SLACK_S + SLOWER_MAX * sum(seconds)
    each = f"--timeout={SLACK_S + SLOWER_MAX * max(seconds):.0f}"
    pid = _fork(lambda: _run(files, copy, Choice(tests), each))
    return _Trial(mutant, pid, copy, deadline_s, later)


def _restore(trial: _Trial) -> None:
    module = trial.copy / trial.mutant.module
    shutil.copy2(REPOSITORY / trial.mutant.module, module)
    _forget_bytecode(module)


def _forget_bytecode(module: Path) -> None:
    """It is known by the seconds of its module's time: two mutants of one second would be one."""
    Path(cache_from_source(str(module))).unlink(missing_ok=True)


def _verdict(trial: _Trial) -> Verdict | None:
    pid, status = os.waitpid(trial.pid, os.WNOHANG)
    if pid == 0:
        if time.monotonic() < trial.deadline_s:
            return None
        _end(trial.pid)
        os.waitpid(trial.pid, 0)
        return Verdict.HUNG
    _end(trial.pid)
    if os.waitstatus_to_exitcode(status) == 0:
        return Verdict.SURVIVED
    has_timed_out = TIMED_OUT in (trial.copy / "output").read_bytes()
    return Verdict.HUNG if has_timed_out else Verdict.KILLED


def _failed(trial: _Trial) -> list[str]:
    """The tests that the trial's output names as failed."""
    lines = (trial.copy / "output").read_text(errors="replace").splitlines()
    return [line.split(" - ")[0].removeprefix(FAILED) for line in lines if line.startswith(FAILED)]


def _fork(run: Callable[[], int]) -> int:
    pid = os.fork()
    if pid == 0:
        code = int(pytest.ExitCode.INTERNAL_ERROR)
        try:
            code = run()
        finally:
            os._exit(code)
    return pid


def _run(files: Sequence[str], copy: Path, plugin: object, *options: str) -> int:
    os.setsid()
    os.chdir(copy)
    with (copy / "output").open("wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    for module in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[module]
    sys.dont_write_bytecode = False  # The next fork has only the mutant to compile.
    others = [place for place in sys.path if Path(place or ".").resolve() != REPOSITORY]
    sys.path[:] = [str(copy), *others]
    os.environ |= {"PYTHONPATH": str(copy), "SLUICE_TEST_SEED": SEED}
    temporary = copy.parent / f"{copy.name}.tables"
    options = (*OPTIONS, *options, f"--basetemp={temporary}")
    return int(pytest.main([*options, *files], [plugin]))


def _end(group: int) -> None:
    """Whoever the fork started: its group, and those that made one of their own."""
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(group).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
