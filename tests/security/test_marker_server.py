"""Threat T10: the marker server lets nobody in without the token of that table and that instant. It
stays up whatever is sent to it or held open.
"""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.workers.markers.harness import (
    INSTANT,
    LATER,
    SECRET,
    ServerProcess,
    directory_of,
    new_table,
)
from workers.markers import mint_admin_token, mint_token
from workers.markers.client import BASE_PATH
from workers.storage.local import LocalStorage
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision

A = "p=1/a.parquet.marker.CREATE"
ROUTES = (
    ("POST", "/create"),
    ("POST", "/create-all"),
    ("GET", "/all"),
    ("GET", "/create-and-merge"),
    ("GET", "/append"),
    ("GET", "/dir/exists"),
    ("POST", "/dir/delete"),
)
OPERATORS = (("GET", "/metrics"), ("POST", "/drain"))
SOCKETS = 10_000


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake") / "tables"
    root.mkdir()
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[ServerProcess]:
    running = ServerProcess(root).start()
    yield running
    running.stop()


@pytest.fixture
def storage(root: Path) -> LocalStorage:
    return new_table(root, f"table{len(list(root.iterdir()))}")


def test_no_route_is_open_to_a_token_of_anything_else(
    server: ServerProcess,
    storage: LocalStorage,
    root: Path,
) -> None:
    neighbour = new_table(root, f"{Path(storage.location).name}0")
    tokens = {
        None: 401,
        "": 401,
        "x": 403,
        mint_token(SECRET, neighbour.location, INSTANT): 403,
        mint_token(SECRET, storage.location, LATER): 403,
        mint_token("another secret", storage.location, INSTANT): 403,
        mint_token(SECRET, str(root), INSTANT): 403,
        mint_admin_token(SECRET): 403,
        mint_token(SECRET, storage.location, INSTANT)[:-1]: 403,
        mint_token(SECRET, storage.location, INSTANT).upper(): 403,
    }
    query = {"markerdirpath": directory_of(storage), "markername": A}

    statuses = {
        (method, path, token): server.ask(
            method, f"{BASE_PATH}{path}", query=query, token=token, body=A
        ).status
        for method, path in ROUTES
        for token in tokens
    }

    assert {key: status for key, status in statuses.items() if status != tokens[key[2]]} == {}
    own = mint_token(SECRET, storage.location, INSTANT)
    assert [server.ask(*route, token=own).status for route in OPERATORS] == [403, 403]
    assert [server.ask(*route).status for route in OPERATORS] == [401, 401]
    assert storage.list_tree(".hoodie/.temp") == []


def test_a_token_opens_no_other_base_path(
    server: ServerProcess,
    storage: LocalStorage,
    root: Path,
    tmp_path: Path,
) -> None:
    outside = new_table(tmp_path, "outside")
    own = mint_token(SECRET, storage.location, INSTANT)
    places = (
        directory_of(outside),
        f"{storage.location}/../outside/.hoodie/.temp/{INSTANT}",
        f"{storage.location}/.hoodie/.temp/../../../x/.hoodie/.temp/{INSTANT}",
        f"/.hoodie/.temp/{INSTANT}",
        f"file://{outside.location}/.hoodie/.temp/{INSTANT}",
        f"//{outside.location}/.hoodie/.temp/{INSTANT}",
        f"s3://lake/x/.hoodie/.temp/{INSTANT}",
        "",
        "%2e%2e",
    )

    for place in places:
        query = {"markerdirpath": place, "markername": A, "basepath": outside.location}
        statuses = [
            server.ask(method, f"{BASE_PATH}{path}", query=query, token=own, body=A).status
            for method, path in ROUTES
        ]
        assert set(statuses) <= {400, 403}, place
    in_its_own_name = server.create(outside, A)

    assert in_its_own_name.status == 403
    assert outside.list_tree(".hoodie/.temp") == []


def test_a_token_ends_with_its_instant(
    server: ServerProcess,
    storage: LocalStorage,
) -> None:
    assert server.create(storage, A).result == "created"
    decision = RollbackDecision(by=LATER, nonce="n", reason="a test", writer=None, conflict=None)
    assert decisions.decide(storage, INSTANT, decision)

    late = server.create(storage, "p=1/b.parquet.marker.CREATE")

    assert late.status >= 400
    assert late.result != "created"


def test_a_body_of_10_mb_is_refused_before_it_is_read(
    server: ServerProcess,
    storage: LocalStorage,
) -> None:
    query = {"markerdirpath": directory_of(storage)}
    own = mint_token(SECRET, storage.location, INSTANT)

    answer = server.ask(
        "POST", f"{BASE_PATH}/create-all", query=query, token=own, body=b"x" * (10 << 20)
    )

    assert answer.status == 413
    assert server.create(storage, A).result == "created"


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < SOCKETS + 1_000:
        pytest.skip(f"no more than {before[1]} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent", [b"", b"POST /v1/hoodie", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n"]
)
def test_10000_open_sockets_leave_the_service_up(
    sent: bytes, server: ServerProcess, storage: LocalStorage, many_descriptors: None,
) -> None:  # fmt: skip
    with ExitStack() as held:
        for _ in range(SOCKETS):
            connection = held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            if sent:
                connection.sendall(sent)
        assert server.create(storage, A).result == "created"
    assert server.create(storage, A).result == "exists"
