"""What is asked for, drawn by chance, and what becomes of it: an account of each table that no
worker and no mirror writes.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from django.contrib.auth.models import User

from controlplane.errors import ControlPlaneError
from controlplane.operations.actions import (
    do_request_rollback,
    do_request_service,
    plan_rollback,
    plan_service,
)
from controlplane.operations.ask import Requester
from controlplane.operations.models import Operation
from controlplane.operations.permissions import is_destructive
from controlplane.operations.requesting import Given, do_request
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from tests.controlplane.kills.arrow_kind import ArrowAsk
from tests.controlplane.kills.arrow_task import SCHEMA, keys_of
from tests.controlplane.kills.letters import Letters
from workers import create_table
from workers.clock import InstantTime

WRITE: Final = "arrow_write"
REPLAY: Final = "replay"
REASON: Final = "a test of deaths"
_WEIGHTS: Final = {
    "archive": 2,
    "clean": 2,
    "clustering": 2,
    "compaction": 3,
    "delete": 4,
    "delete_savepoint": 2,
    "repair": 1,
    REPLAY: 3,
    "rollback": 6,
    "rollback_several": 3,
    "savepoint": 2,
}
"""Of the half that is no write."""
_PARAMETERS: Final = {
    "archive": {"hoodie.keep.min.commits": "8", "hoodie.keep.max.commits": "12"},
    "clean": {"hoodie.clean.commits.retained": "4"},
    "clustering": {"hoodie.clustering.plan.strategy.sort.columns": "id"},
}
_ALONE: Final = frozenset({"rollback", "rollback_several"})
"""Bound to the newest writes, so mostly asked for where nobody else is at work."""
_BESIDE_OTHERS: Final = 0.15
_BOUND: Final = 0.2
"""So often also what takes nothing away is asked for with its plan, which mostly is void soon."""
_TRIES: Final = 40
_TWICE: Final = 0.1
"""So often a request comes a second time, with its key."""
OF_CONCURRENCY: Final = (
    ("COPY_ON_WRITE", "OPTIMISTIC_CONCURRENCY_CONTROL"),
    ("MERGE_ON_READ", "NON_BLOCKING_CONCURRENCY_CONTROL"),
    ("MERGE_ON_READ", "OPTIMISTIC_CONCURRENCY_CONTROL"),
)


@dataclass
class Asked:
    """An operation, and which writes of its table it is about."""

    operation_id: str
    kind: str
    account: Account
    names: tuple[str, ...]
    """The write itself, or what is deleted or taken back."""
    touched_s: float
    """When it was asked for, or its worker died last; on the monotonic clock."""
    deaths: int = 0
    seen_final: str = ""


@dataclass
class Account:
    """One table: what was written to it, as those who asked know it."""

    row: Table
    location: Path
    mode: str
    instants: dict[str, InstantTime] = field(default_factory=dict)
    """Write -> its instant, of those that succeeded."""
    gone: set[str] = field(default_factory=set)
    """Writes that were deleted or taken back."""
    taken_back: set[str] = field(default_factory=set)
    sent: set[str] = field(default_factory=set)
    """Letters that are in their topic again."""
    savepoints: set[InstantTime] = field(default_factory=set)
    open: dict[str, Asked] = field(default_factory=dict)
    reserved_for: str = ""

    @property
    def alive(self) -> list[str]:
        """Writes whose rows are there, the newest first."""
        left = [name for name in self.instants if name not in self.gone]
        return sorted(left, key=self.instants.__getitem__, reverse=True)

    def expected_keys(self) -> set[str]:
        return {key for name in self.alive for key in keys_of(name)}

    def take(self, request: Asked, operation: Operation) -> None:
        """How it ended; also when a later look corrects that."""
        request.seen_final = operation.state
        if operation.state != "succeeded":
            return
        match request.kind:
            case "arrow_write":
                self.instants[request.names[0]] = operation.instant
            case "delete":
                self.gone.update(request.names)
            case "rollback" | "rollback_several":
                self.gone.update(request.names)
                self.taken_back.update(request.names)
            case "replay":
                self.sent.update(request.names)
            case "savepoint":
                self.savepoints.add(operation.instant)
            case "delete_savepoint":
                self.savepoints -= set(request.names)

    def end(self, request: Asked) -> None:
        del self.open[request.operation_id]
        if self.reserved_for == request.operation_id:
            self.reserved_for = ""


class Asking:
    """Half writes, the rest drawn from what the tables allow at the moment."""

    def __init__(
        self, accounts: list[Account], letters: Letters, by: User, chance: random.Random
    ) -> None:
        self.accounts, self._by, self._chance = accounts, by, chance
        self.letters = letters
        self.replays = Account(letters.row, letters.location, "")
        """Of the table with the letters, in which nobody else writes."""
        self.requests: dict[str, Asked] = {}
        self.refused: Counter[str] = Counter()

    def next(self) -> Asked | None:
        """None where nothing that is drawn can be asked for now."""
        writes = sum(one.kind == WRITE for one in self.requests.values())
        if 2 * writes <= len(self.requests):
            free = [one for one in self.accounts if not one.reserved_for]
            return self._noted(self._write(self._chance.choice(free))) if free else None
        for _ in range(_TRIES):
            [kind] = self._chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
            account = self._chance.choice(self.accounts)
            try:
                if request := self._replay() if kind == REPLAY else self._other(account, kind):
                    return self._noted(request)
            except ControlPlaneError:
                self.refused[kind] += 1
        return None

    def _noted(self, request: Asked) -> Asked:
        self.requests[request.operation_id] = request
        request.account.open[request.operation_id] = request
        return request

    def _write(self, account: Account) -> Asked:
        name = f"w{len(self.requests)}"
        ask = ArrowAsk(account.row, name, account.mode)
        given = Given(idempotency_key=name)
        operation = do_request(ask, Requester.person(self._by), given)
        if self._chance.random() < _TWICE:
            again = do_request(ask, Requester.person(self._by), given)
            assert again.pk == operation.pk, (again, operation)
        return self._asked(operation, WRITE, account, (name,))

    def _other(self, account: Account, kind: str) -> Asked | None:
        if account.reserved_for:
            return None
        is_alone = not account.open and self._chance.random() >= _BESIDE_OTHERS
        if kind in _ALONE and not is_alone and self._chance.random() >= _BESIDE_OTHERS:
            return None
        is_one = kind == "rollback"
        request = self._rollback(account) if is_one else self._service(account, kind)
        if request is not None and kind in _ALONE and is_alone:
            account.reserved_for = request.operation_id
        return request

    def _replay(self) -> Asked | None:
        if self.replays.open:
            return None
        operation, said = self.letters.ask(REASON)
        return self._asked(operation, REPLAY, self.replays, said)

    def _rollback(self, account: Account) -> Asked | None:
        if not account.alive:
            return None
        name = account.alive[0]
        plan = plan_rollback(account.row, account.instants[name])
        operation = do_request_rollback(
            account.row,
            account.instants[name],
            plan.plan_hash,
            REASON,
            account.row.slug,
            self._by,
        )
        return self._asked(operation, "rollback", account, (name,))

    def _service(self, account: Account, kind: str) -> Asked | None:
        names, parameters = self._parameters(account, kind)
        if parameters is None:
            return None
        shown = plan_service(account.row, kind, parameters, self._by).plan_hash
        is_bound = is_destructive(kind) or self._chance.random() < _BOUND
        plan_hash = shown if is_bound else ""
        operation = do_request_service(
            account.row, kind, parameters, plan_hash, REASON, account.row.slug, self._by
        )
        return self._asked(operation, kind, account, names)

    def _parameters(
        self, account: Account, kind: str
    ) -> tuple[tuple[str, ...], dict[str, str] | None]:
        alive = account.alive
        match kind:
            case "delete" if alive:
                name = self._chance.choice(alive)
                return (name,), {"predicate": f"op = '{name}'"}
            case "rollback_several" if len(alive) > 1:
                names = tuple(alive[: self._chance.randint(2, 3)])
                return names, {"instants": ",".join(account.instants[name] for name in names)}
            case "delete_savepoint" if account.savepoints:
                instant = self._chance.choice(sorted(account.savepoints))
                return (instant,), {"instant": instant}
            case "delete" | "rollback_several" | "delete_savepoint":
                return (), None
            case _:
                return (), dict(_PARAMETERS.get(kind, {}))

    def _asked(
        self, operation: Operation, kind: str, account: Account, names: tuple[str, ...]
    ) -> Asked:
        return Asked(str(operation.pk), kind, account, names, time.monotonic())


def made_tables(root: Path, count: int, by: User) -> list[Account]:
    """Empty tables of each kind in turn, registered."""
    accounts = []
    for number in range(count):
        table_type, mode = OF_CONCURRENCY[number % len(OF_CONCURRENCY)]
        location, slug = root / f"t{number:02}", f"t{number:02}"
        create_table(
            location,
            name=slug,
            schema=SCHEMA,
            record_key=["id"],
            ordering=["ts"],
            table_type=table_type,
        )
        row = do_register_table(location=str(location), slug=slug, name=slug, by=by)
        accounts.append(Account(row, location, mode))
    return accounts
