"""One run: what is asked for, who is killed, how each operation ended, and how long that took."""

from __future__ import annotations

import json
import os
import random
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from controlplane.operations.models import LogLine, Operation
from controlplane.operations.states import FINAL
from tests.controlplane.kills import oracle
from tests.controlplane.kills.asking import WRITE, Asked, Asking
from tests.controlplane.kills.processes import CHILD, DEATHS, Beat, Engines, cpu_s, held_by

WORKERS_DIE_EVERY_S: Final = 5.0
"""At most: one that starts takes seconds. Between these deaths those of children alone, of which
the worker makes another at once.
"""
SETTLED_WITHIN_S: Final = 60.0
OPEN_MAX: Final = 16
TABLES: Final = 12
_LOOK_EVERY_S: Final = 0.1
_STILL_S: Final = 6.0
"""One more round of settling and correcting after the last end."""


@dataclass
class Run:
    asking: Asking
    engines: Engines
    beat: Beat
    pids: dict[str, int]
    """Of the control plane's processes."""
    operations: int
    kill_every_s: float
    seed: int
    deaths: Counter[str] = field(default_factory=Counter)
    settled_s: list[float] = field(default_factory=list)
    """From the last death of its worker to its end, of operations that met one."""

    def work(self) -> None:
        """Until all that was to be asked for has ended."""
        chance = random.Random(f"{self.seed} deaths")
        began_s = worker_died_s = time.monotonic()
        kill_at_s = began_s + self.kill_every_s
        while len(self.asking.requests) < self.operations or self._open():
            self.beat.tick()
            self._take_ends()
            while len(self.asking.requests) < self.operations and len(self._open()) < OPEN_MAX:
                if self.asking.next() is None:
                    break
            now_s = time.monotonic()
            if now_s >= kill_at_s:
                may_be_worker = now_s - worker_died_s >= WORKERS_DIE_EVERY_S
                if self._kill(chance, may_be_worker=may_be_worker):
                    worker_died_s = now_s
                kill_at_s = now_s + self.kill_every_s
            time.sleep(_LOOK_EVERY_S)
        self._print_figures(time.monotonic() - began_s)

    def check(self) -> None:
        """Everything again from the beginning, once nobody is at work."""
        still_at_s = time.monotonic() + _STILL_S
        while time.monotonic() < still_at_s:
            self.beat.tick()
            time.sleep(_LOOK_EVERY_S)
        self._take_corrections()
        letters = self.asking.letters
        oracle.check_operations(self.asking.requests, letters.sink)
        oracle.check_letters(self.asking.replays, letters.in_topic())
        for account in self.asking.accounts:
            oracle.await_swept(account, self.beat.tick)
            own = [
                request for request in self.asking.requests.values() if request.account is account
            ]
            oracle.check_table(account, own)
        oracle.check_counts(_scraped(), len(self.asking.requests))
        ends = Counter(
            (request.kind, request.seen_final) for request in self.asking.requests.values()
        )
        unwritten = {end: count for end, count in ends.items() if end[0] == WRITE}
        assert set(unwritten) == {(WRITE, "succeeded")}, unwritten

    def _open(self) -> list[Asked]:
        accounts = [*self.asking.accounts, self.asking.replays]
        return [request for account in accounts for request in account.open.values()]

    def _take_ends(self) -> None:
        open_now = {request.operation_id: request for request in self._open()}
        for operation in Operation.objects.filter(pk__in=list(open_now)):
            request = open_now[str(operation.pk)]
            if operation.state in FINAL:
                request.account.take(request, operation)
                request.account.end(request)
                if request.deaths:
                    self.settled_s.append(time.monotonic() - request.touched_s)
                continue
            late_s = time.monotonic() - request.touched_s
            assert late_s < SETTLED_WITHIN_S, f"open after {late_s:.0f} s: {described(operation)}"

    def _take_corrections(self) -> None:
        for operation in Operation.objects.filter(pk__in=list(self.asking.requests)):
            request = self.asking.requests[str(operation.pk)]
            if request.seen_final != operation.state:
                request.account.take(request, operation)

    def _kill(self, chance: random.Random, *, may_be_worker: bool) -> bool:
        """Whether a worker died, and not only its child."""
        holders: dict[str, int] = {}

        def at_work() -> Collection[int]:
            nonlocal holders
            holders = held_by([request.operation_id for request in self._open()])
            return holders.values()

        at_work()
        death = self.engines.kill_one(chance, at_work, DEATHS if may_be_worker else (CHILD,))
        self.deaths[death.what] += 1
        for request in self._open():
            if holders.get(request.operation_id) in death.pids:
                request.touched_s = time.monotonic()
                request.deaths += 1
        return death.what != CHILD

    def _print_figures(self, took_s: float) -> None:
        ends = Counter(
            f"{request.kind} {request.seen_final}" for request in self.asking.requests.values()
        )
        shares = {
            "engine workers": self.engines.cpu_s(),
            "asking and looking": sum(os.times()[:2]),
            **{name: cpu_s(pid) for name, pid in self.pids.items()},
        }
        figures = {
            "operations": len(self.asking.requests),
            "seconds": round(took_s, 1),
            "per_s": round(len(self.asking.requests) / took_s, 2),
            "deaths": dict(sorted(self.deaths.items())),
            "operations_hit": len(self.settled_s),
            "settled_s_median": round(median(self.settled_s), 1) if self.settled_s else None,
            "settled_s_max": round(max(self.settled_s), 1) if self.settled_s else None,
            "cpu_s": {name: round(used, 1) for name, used in sorted(shares.items())},
            "ends": dict(sorted(ends.items())),
            "refused": dict(self.asking.refused),
        }
        sys.stdout.write(f"{json.dumps(figures)}\n")
        sys.stdout.flush()


def described(operation: Operation) -> str:
    """With its log, for a person who looks for the cause."""
    lines = LogLine.objects.filter(operation=operation).order_by("id")
    log = "\n".join(f"  {line.at:%H:%M:%S.%f} {line.source}: {line.message}" for line in lines)
    facts = f"{operation.kind} {operation.service} {operation.pk} {operation.state}"
    return f"{facts} attempts={operation.attempts} {operation.message}\n{log}"


def _scraped() -> str:
    port = os.environ["SLUICE_WEB_PORT"]
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics")
    request.add_header("Authorization", f"Bearer {os.environ['SLUICE_METRICS_TOKEN']}")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())
