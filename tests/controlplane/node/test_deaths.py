"""Whatever dies of a node while operations of every kind are under way: a minute after the node is
whole again each of them is over, storage shows what it says, and its table waits for nobody.

Real processes, killed with SIGKILL at moments of chance. What chance draws depends on
`SLUICE_TEST_SEED` alone, the interleaving of the processes does not.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from pytest_django import Settings

from controlplane.node.living import is_writer
from controlplane.node.places import Places
from controlplane.node.supervision import Supervisor
from tests.controlplane.node.asked_kinds import Requested, prepared_table
from tests.controlplane.node.test_up_and_down import Node, wait_until
from tests.controlplane.prepared_tables import SERVICES
from tests.support.node_api import NodeApi

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SEED = int(os.environ["SLUICE_TEST_SEED"])
"""Chosen in `tests/conftest.py`, and printed at the head of a run."""
KINDS = ("rollback", "write", *SERVICES)
SETTLED_WITHIN_S = 60.0
_LONGEST_S = 6.0
"""The death comes so long after the requests at the latest, early ones more often: a service takes
a tenth of a second, a write some of them.
"""
_WHOLE_WITHIN_S = 180.0
_PASSED_ON = ("PATH", "HOME", "LANG", "JAVA_HOME", "JAVA_TOOL_OPTIONS")


@dataclass(frozen=True, slots=True)
class LiveNode:
    node: Node
    api: NodeApi
    folder: Path

    @property
    def places(self) -> Places:
        return Places(self.node.home)

    def pid_of(self, name: str) -> int:
        """Of a process that the supervisor keeps."""
        return Supervisor(self.node.identity).states()[name].pid

    def await_whole(self) -> None:
        wait_until(lambda: self.node.manage("status").returncode == 0, seconds=_WHOLE_WITHIN_S)

    def up(self) -> None:
        """Has nothing to do where the supervisor lives."""
        up = self.node.manage("up", "--no-demo")
        assert up.returncode == 0, up.stdout + up.stderr


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    folder = tmp_path_factory.mktemp("deaths")
    home = folder / "home"
    given = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    own = {"SLUICE_HOME": str(home), "SLUICE_SOURCE_ROOTS": str(folder)}
    node = Node(home, {**given, **own})
    try:
        node.start("--no-demo")
        made = node.manage("token", "create", "admin")
        assert made.returncode == 0, made.stderr
        yield LiveNode(node, NodeApi(node.identity.url, made.stdout.strip()), folder)
    finally:
        node.manage("down")
    assert node.processes() == []


@pytest.fixture(autouse=True)
def _roots(live: LiveNode, settings: Settings) -> None:
    """Proofs are made here, of the node's tables."""
    settings.SLUICE_TABLE_ROOTS = (str(live.places.tables),)


def _of_supervisor(name: str) -> Callable[[LiveNode], list[psutil.Process]]:
    return lambda live: [psutil.Process(live.pid_of(name))]


def _with_children(name: str) -> Callable[[LiveNode], list[psutil.Process]]:
    """Not with what these have started: drivers, and the marker server."""

    def chosen(live: LiveNode) -> list[psutil.Process]:
        parent = psutil.Process(live.pid_of(name))
        return [parent, *parent.children()]

    return chosen


def _tasks(live: LiveNode) -> list[psutil.Process]:
    """The children alone, in each of which one task runs."""
    return psutil.Process(live.pid_of("worker")).children()


def _drivers(live: LiveNode) -> list[psutil.Process]:
    return [one for one in live.node.processes() if is_writer(one)]


def _redis_with_its_queue(live: LiveNode) -> list[psutil.Process]:
    """What it wrote is unlinked before it dies, so it comes back without a single message."""
    shutil.rmtree(live.places.redis, ignore_errors=True)
    live.places.redis.mkdir(exist_ok=True)
    return [psutil.Process(live.pid_of("redis"))]


def _named(word: str) -> Callable[[LiveNode], list[psutil.Process]]:
    return lambda live: [psutil.Process(live.node.pid_of(word))]


VICTIMS: Mapping[str, Callable[[LiveNode], list[psutil.Process]]] = {
    "a task": _tasks,
    "beat": _of_supervisor("beat"),
    "control": _with_children("control"),
    "everything": lambda live: live.node.processes(),
    "marker server": _named("workers.markers.server"),
    "messages": _with_children("messages"),
    "mirror": _with_children("mirror"),
    "redis": _of_supervisor("redis"),
    "redis and its queue": _redis_with_its_queue,
    "spark": _of_supervisor("spark"),
    "supervisor": _named("supervisord"),
    "the driver": _drivers,
    "web": _of_supervisor("web"),
    "worker": _with_children("worker"),
}
BY_HAND = ("everything", "supervisor")
"""After whose death `up` has something to do."""
ENDS_WRITES = ("everything", "spark", "supervisor", "the driver")
"""`up` ends what a supervisor has left behind."""


def drawn() -> list[tuple[str, tuple[str, ...]]]:
    """Two deaths with three kinds each, one of them without anybody who starts it again."""
    chance = random.Random(SEED)
    kinds = chance.sample(KINDS, 6)
    by_itself = sorted(set(VICTIMS) - set(BY_HAND))
    return [
        (chance.choice(by_itself), tuple(kinds[:3])),
        (chance.choice(sorted(VICTIMS)), tuple(kinds[3:])),
    ]


ROUNDS = range(3)


@pytest.mark.parametrize(
    ("victim", "kinds", "number"),
    [
        *(
            pytest.param(victim, kinds, -1, id=f"{victim}, {', '.join(kinds)}")
            for victim, kinds in drawn()
        ),
        *(
            pytest.param(victim, KINDS, number, marks=pytest.mark.soak, id=f"{victim}, {number}")
            for number in ROUNDS
            for victim in VICTIMS
        ),
    ],
)
def test_everything_is_settled_a_minute_after_the_node_is_whole_again(
    victim: str, kinds: Sequence[str], number: int, live: LiveNode
) -> None:
    chance = random.Random(f"{SEED} {victim} {number}")
    live.up()
    tables = live.places.tables
    operations = [prepared_table(live.api, tables, kind, live.folder) for kind in kinds]
    chance.shuffle(operations)

    with ThreadPoolExecutor(len(operations)) as people:
        answers = [people.submit(one.ask) for one in operations]
        time.sleep(chance.random() ** 2 * _LONGEST_S)
        kill(victim, live)
        live.up()
        live.await_whole()
        for answer in answers:
            answer.result()

    await_ends(operations)
    for operation in operations:
        operation.check_end(may_fail=victim in ENDS_WRITES)
        operation.check_next_write()


def kill(victim: str, live: LiveNode) -> None:
    for process in VICTIMS[victim](live):
        with suppress(psutil.NoSuchProcess):  # Others of them die by the first one's death.
            process.kill()


def await_ends(operations: Sequence[Requested]) -> None:
    """Within a minute for all of them together."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    left = list(operations)
    while left:
        left = [one for one in left if not one.is_over()]
        unended = [(one.kind, one.seen()["row"]) for one in left] if _is_past(deadline) else []
        assert unended == []
        time.sleep(0.5)


def _is_past(deadline: float) -> bool:
    return time.monotonic() > deadline
