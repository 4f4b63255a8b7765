"""Draw requests, send them, and judge the answers."""

from __future__ import annotations

import random
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import hypothesis
import schemathesis
from django.core.cache import cache
from django.core.signals import got_request_exception, request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, connection, transaction
from django.test import override_settings
from schemathesis import Case
from schemathesis.checks import CheckFunction
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.gate import print_line
from tests.openapi_fuzz.world import (
    HIDDEN,
    HIDDEN_SPACE,
    MARKS,
    Role,
    World,
    make_world,
    source_root,
)

AnyCase: TypeAlias = "Case[Any]"
UNAVAILABLE = ("queue_unavailable", "no_live_stream")
"""Codes of 503 that the document lists: the test runs without Redis."""
CHECKS: list[CheckFunction] = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
ROLES_EACH = 3
"""How many roles send each request that is drawn: drawing costs more than sending."""
REPLACED = 0.6
"""How often a member that names something names something that there is."""
IN_PATHS = 0.85
"""The same for parts of paths, without which most requests would end as 404."""
PLAIN = 0.3
"""How often a request goes without its query, most of which are refused."""
FAULTS_MAX = 200
_SAID_EVERY = 1000


@dataclass
class Run:
    world: World
    document: Any
    seed: int
    faults: dict[tuple[str, str], str] = field(default_factory=dict)
    """(address, what is wrong) -> the first request that showed it."""
    sent: Counter[str] = field(default_factory=Counter)
    """By role."""
    statuses: Counter[int] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    """How many answers held each mark: without any, nothing was looked for."""
    unreached: list[str] = field(default_factory=list)
    """Addresses of which no request could be drawn."""
    _settings: Any = None
    _raised: str = ""

    def __post_init__(self) -> None:
        got_request_exception.connect(self._keep_error)

    def _keep_error(self, **_given: Any) -> None:
        """Keep what the request at hand raised, and where."""
        error = sys.exc_info()[1]
        frames = traceback.extract_tb(error.__traceback__ if error else None)[-2:]
        where = ", ".join(f"{Path(each.filename).name}:{each.lineno}" for each in frames)
        self._raised = f"{error!r:.300} at {where}"

    @classmethod
    def prepare(cls, root: Path, *, seed: int) -> Run:
        """Migrate a database, make the tables below `root`, and read the document as an admin."""
        connection.creation.create_test_db(verbosity=0, serialize=False)
        tables = root / "tables"
        tables.mkdir()
        changed = override_settings(
            SLUICE_TABLE_ROOTS=(str(tables),),
            SLUICE_SOURCE_ROOTS=tuple(
                f"{name}={source_root(tables, name)}" for name in ("default", HIDDEN_SPACE)
            ),
            SLUICE_HOME=root,
            SLUICE_MARKER_SECRET="",  # Else an admin who restarts the marker server starts one.
            DEBUG_PROPAGATE_EXCEPTIONS=False,
        )
        changed.enable()
        for signal in (request_started, request_finished):
            # As Django's own test client does: it would close the connection in its transaction.
            signal.disconnect(close_old_connections)
        with transaction.atomic():
            world = make_world(tables)
        admin = world.roles[-1]
        document = schemathesis.openapi.from_wsgi(
            "/api/v1/schema/?format=json",
            get_wsgi_application(),
            headers={"Authorization": f"Token {admin.token}"},
        )
        return cls(world, document, seed, _settings=changed)

    def end(self) -> None:
        self._settings.disable()
        connection.close()

    def addresses(self) -> list[Any]:
        """Each path with each of its methods."""
        return [operation.ok() for operation in self.document.get_all_operations()]

    def send(self, addresses: Sequence[Any], count: int) -> None:
        """Send about `count` requests, as many of each address and mode."""
        kinds = [(each, mode) for each in addresses for mode in GenerationMode]
        of_each = max(1, -(-count // (len(kinds) * ROLES_EACH)))
        for number, (address, mode) in enumerate(kinds):
            seed = random.Random(f"{self.seed} {address.label} {mode.value}").getrandbits(64)
            before = self.sent.total()
            try:
                self._send_some(address, mode, of_each, seed)
            except hypothesis.errors.Unsatisfiable:
                self.unreached.append(f"{address.label} {mode.value}")
            if before // _SAID_EVERY != self.sent.total() // _SAID_EVERY:
                print_line(
                    f"{self.sent.total()} requests, {number + 1} of {len(kinds)} kinds, "
                    f"{len(self.faults)} faults"
                )

    def _send_some(self, address: Any, mode: GenerationMode, count: int, seed: int) -> None:
        chance = random.Random(seed)

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=count,
            phases=[hypothesis.Phase.generate],
            database=None,
            deadline=None,
            derandomize=False,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=address.as_strategy(generation_mode=mode))
        def try_out(case: AnyCase) -> None:
            self._try_out(case, chance)

        try_out()

    def _try_out(self, case: AnyCase, chance: random.Random) -> None:
        query = case.query
        for role in chance.sample(self.world.roles, ROLES_EACH):
            case.query = {} if chance.random() < PLAIN else dict(query)
            self._name_what_there_is(case, chance)
            # Called in process: nothing would decode the answer.
            case.headers["Accept-Encoding"] = "identity"
            case.headers.pop("Authorization", None)
            if role.token:
                case.headers["Authorization"] = f"Token {role.token}"
            self.sent[role.name] += 1
            cache.clear()
            with transaction.atomic():
                for wrong in self._judge(case, role):
                    self._note(case, role, wrong)
                transaction.set_rollback(True)

    def _judge(self, case: AnyCase, role: Role) -> Iterator[str]:
        """Send it, and yield what is wrong with the answer."""
        response = case.call()
        self.statuses[response.status_code] += 1
        text = response.content.decode(errors="replace") + str(dict(response.headers))
        for mark in MARKS:
            self.seen[mark] += mark in text
        if leaks := self._find_leaks(case, role, text):
            yield f"shows {', '.join(leaks)}"
        if response.status_code < 300 and not role.is_admitted and case.method != "OPTIONS":
            yield f"answers {response.status_code}"
        if response.status_code == 500:
            yield f"answers 500: {self._raised}"
        if response.status_code == 503 and response.json().get("code") not in UNAVAILABLE:
            yield f"answers 503: {text[:200]}"
        if response.status_code == 200 and "fields" in case.query:
            # Rows are cut on purpose: the form is that of the same answer as a whole.
            case.query = {name: text for name, text in case.query.items() if name != "fields"}
            response = case.call()
        try:
            case.validate_response(response, checks=CHECKS)
        except FailureGroup as group:
            for failure in group.exceptions:
                yield f"{failure.title}: {_first_line(failure)}"

    def _find_leaks(self, case: AnyCase, role: Role, text: str) -> list[str]:
        """Marks and traces that the role may not see, but for what the request itself named."""
        if not role.forbidden:
            return []
        request_text = unquote(f"{case.formatted_path} {case.query} {case.body!r}")
        for named in self._list_names():
            if named in request_text:
                text = text.replace(named, "")
        marks = [mark for mark in role.forbidden if mark in text]
        if HIDDEN in role.forbidden:
            marks += [trace for trace in self.world.traces if trace in text]
        return marks

    def _list_names(self) -> list[str]:
        """What a request may have named, the longest first."""
        texts: set[str] = set()
        for value in (thing for things in self.world.hidden.values() for thing in things):
            texts |= set(map(str, value.values())) if isinstance(value, dict) else {str(value)}
        return sorted((text for text in texts if len(text) > 3), key=len, reverse=True)

    def _name_what_there_is(self, case: AnyCase, chance: random.Random) -> None:
        things = self.world.hidden if chance.random() < 0.3 else self.world.own
        for part, rate in ((case.path_parameters, IN_PATHS), (case.query, REPLACED)):
            for name in part:
                if name in things and chance.random() < rate:
                    part[name] = chance.choice(things[name])
        if isinstance(case.body, dict | list):
            case.body = _replace_members(case.body, things, chance)

    def _note(self, case: AnyCase, role: Role, wrong: str) -> None:
        key = (case.operation.label, wrong[:160])
        if key not in self.faults and len(self.faults) < FAULTS_MAX:
            self.faults[key] = f"as {role.name}: {case.as_curl_command()}"
            print_line(f"FAULT {case.operation.label}: {wrong}\n      {self.faults[key]}")

    def report(self) -> Iterator[str]:
        yield f"{self.sent.total()} requests: {dict(sorted(self.sent.items()))}"
        yield f"statuses: {dict(sorted(self.statuses.items()))}"
        yield f"answers with marks: {dict(self.seen)}"
        if self.unreached:
            yield f"nothing to send: {', '.join(self.unreached)}"
        yield f"{len(self.faults)} faults"


def _replace_members(
    value: Any, things: Mapping[str, tuple[Any, ...]], chance: random.Random
) -> Any:
    """`value` with things that there are in the place of some members named like them."""
    if isinstance(value, list):
        return [_replace_members(item, things, chance) for item in value]
    if not isinstance(value, dict):
        return value
    members = {}
    for name, member in value.items():
        if name in things and chance.random() < REPLACED:
            thing = chance.choice(things[name])
            members[name] = [thing] if isinstance(member, list) else thing
        else:
            members[name] = _replace_members(member, things, chance)
    return members


def _first_line(failure: Failure | Exception) -> str:
    return " ".join(str(failure).split())[:400]
