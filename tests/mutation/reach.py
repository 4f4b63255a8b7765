"""Which tests run which function: watched once per target on the unchanged code, so that a mutant
meets only those tests that can notice it, those first that noticed others.

What runs in a process that a test starts is not seen: such tests meet every mutant. So do all tests
where a change stands outside of functions, or where a function runs while modules are imported.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import coverage
import pytest

from tests.mutation.mutants import Mutant

STARTS_A_PROCESS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn")
_NOBODYS = ""
"""The context of what runs outside of tests: while modules are imported, or in late threads."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What the watched run of a target's tests said."""

    seconds: Mapping[str, float]
    """Of each test, by its id."""
    always: frozenset[str]
    """Tests that start processes."""
    by_line: Mapping[str, Mapping[int, frozenset[str]]]
    """Module -> line -> the tests that ran it."""
    kills: Counter[str] = field(default_factory=Counter, compare=False)
    """How many mutants each test has noticed; whoever runs them counts."""

    def tests_for(self, mutant: Mutant) -> list[str]:
        """Those that may notice it, in the order in which they are to run: who noticed others
        first, then the quickest. None is possible.
        """
        if mutant.body is None:
            tests = frozenset(self.seconds)
        else:
            lines = self.by_line.get(mutant.module, {})
            tests = self.always.union(*(lines.get(line, frozenset()) for line in mutant.body))
        return sorted(tests, key=lambda test: (-self.kills[test], self.seconds[test], test))

    def write(self, path: Path) -> None:
        """For the process that started this one."""
        by_line = {
            module: {line: sorted(tests) for line, tests in lines.items()}
            for module, lines in self.by_line.items()
        }
        path.write_text(json.dumps([dict(self.seconds), sorted(self.always), by_line]))

    @classmethod
    def read(cls, path: Path) -> Reach:
        """What `write` wrote."""
        seconds, always, by_line = json.loads(path.read_text())
        lines_of = {
            module: {int(line): frozenset(tests) for line, tests in lines.items()}
            for module, lines in by_line.items()
        }
        return cls(seconds, frozenset(always), lines_of)


class Watch:
    """A plugin of pytest that watches all of a run, from the collection on."""

    def __init__(self, root: Path, modules: Sequence[str]) -> None:
        self._paths = {module: str(root / module) for module in modules}
        self._coverage = coverage.Coverage(
            data_file=None, config_file=False, include=list(self._paths.values())
        )
        self._context = _NOBODYS
        self._seconds = dict[str, float]()
        self._users = defaultdict[str, set[str]](set)
        """Context -> the tests whose doing it is: a test, or whoever uses a shared fixture."""
        self._with_processes = set[str]()

    def __enter__(self) -> Watch:
        sys.addaudithook(self._note_process)
        self._coverage.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._coverage.stop()

    def reach(self) -> Reach:
        """Once the run has ended."""
        measured = self._coverage.get_data()
        by_line = {
            module: {
                line: frozenset(self._tests(contexts))
                for line, contexts in measured.contexts_by_lineno(path).items()
            }
            for module, path in self._paths.items()
        }
        return Reach(self._seconds, frozenset(self._tests(self._with_processes)), by_line)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Function) -> Generator[None, object, object]:
        """One test, from its fixtures to their end."""
        for name in item.fixturenames:
            self._users[_shared(name)].add(item.nodeid)
        self._users[item.nodeid].add(item.nodeid)
        self._switch(item.nodeid)
        began_s = time.monotonic()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = time.monotonic() - began_s
            self._switch(_NOBODYS)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object]
    ) -> Generator[None, object, object]:
        """What a fixture of several tests does is the doing of each that uses it."""
        if fixturedef.scope == "function":
            return (yield)
        before = self._context
        self._switch(_shared(fixturedef.argname))
        try:
            return (yield)
        finally:
            self._switch(before)

    def _switch(self, context: str) -> None:
        self._context = context
        self._coverage.switch_context(context)

    def _note_process(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in STARTS_A_PROCESS and self._context != _NOBODYS:
            self._with_processes.add(self._context)

    def _tests(self, contexts: Collection[str]) -> set[str]:
        if _NOBODYS in contexts:
            return set(self._seconds)
        return {test for context in contexts for test in self._users[context]}


class Choice:
    """A plugin of pytest: of what was collected only these tests are run, in this order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._place = {test: place for place, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Named by pytest."""
        chosen = [item for item in items if item.nodeid in self._place]
        items[:] = sorted(chosen, key=lambda item: self._place[item.nodeid])


def _shared(fixture: str) -> str:
    return f"fixture {fixture}"
