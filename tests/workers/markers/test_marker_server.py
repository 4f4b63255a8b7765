"""The server's HTTP surface: Hudi's routes, tokens, attacks, overload, draining, figures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.crash_ports import START_MS, StillClock
from tests.workers.markers.harness import (
    INSTANT,
    LATER,
    SECRET,
    ServerProcess,
    decide,
    directory_of,
    new_table,
)
from workers.clock import SystemClock
from workers.errors import InstantRolledBack, InvalidInput, MarkerRefused
from workers.markers import (
    IOType,
    Marker,
    ServerMarkers,
    mint_token,
    open_markers,
    read_markers,
)
from workers.markers.client import BASE_PATH
from workers.markers.marker import parse_marker
from workers.markers.process import drain, probe, sample
from workers.ports import system_ports
from workers.storage.local import LocalStorage
from workers.timeline.decisions import raise_archived_before

A, B, C = (f"p=1/{letter}.parquet.marker.CREATE" for letter in "abc")


def token(storage: LocalStorage, instant: str = INSTANT) -> str:
    return mint_token(SECRET, storage.location, instant)


def test_hudis_client_is_served_by_query_and_by_form(
    server: ServerProcess, storage: LocalStorage
) -> None:
    by_form = {"markerdirpath": directory_of(storage), "markername": B, "basepath": "x"}

    first = server.create(storage, A)
    second = server.ask("POST", f"{BASE_PATH}/create", form=by_form, token=token(storage))
    again = server.create(storage, A)

    assert (first.status, first.content, first.result) == (200, True, "created")
    assert (second.status, second.content, second.result) == (200, True, "created")
    assert (again.status, again.content, again.result) == (200, False, "exists")
    assert server.all(storage) == [A, B]


def test_a_repeated_request_id_is_answered_as_the_first_time(
    server: ServerProcess, storage: LocalStorage
) -> None:
    answers = [server.create(storage, A, request_id=each) for each in ("r-1", "r-1", "r-2")]

    assert [answer.result for answer in answers] == ["created", "created", "exists"]
    assert [answer.content for answer in answers] == [True, True, False]


def test_append_markers_have_their_own_list(server: ServerProcess, storage: LocalStorage) -> None:
    log = "p=1/.x.log.1_0-0-0.marker.APPEND"
    for name in (A, log):
        server.create(storage, name)

    request = {"query": {"markerdirpath": directory_of(storage)}, "token": token(storage)}

    assert server.ask("GET", f"{BASE_PATH}/append", **request).content == [log]  # type: ignore[arg-type]
    assert server.ask("GET", f"{BASE_PATH}/create-and-merge", **request).content == [A]  # type: ignore[arg-type]


def test_a_directory_exists_from_its_first_marker_to_its_deletion(
    server: ServerProcess, storage: LocalStorage
) -> None:
    request = {"query": {"markerdirpath": directory_of(storage)}, "token": token(storage)}

    def exists() -> object:
        return server.ask("GET", f"{BASE_PATH}/dir/exists", **request).content  # type: ignore[arg-type]

    def delete() -> tuple[int, object]:
        answer = server.ask("POST", f"{BASE_PATH}/dir/delete", **request)  # type: ignore[arg-type]
        return answer.status, answer.content

    assert exists() is False
    server.create(storage, A)
    assert exists() is True
    assert delete() == (200, True)
    assert exists() is False
    assert delete() == (200, False)
    assert server.all(storage) == []


def test_a_pending_instants_markers_are_not_deleted(
    server: ServerProcess, storage: LocalStorage
) -> None:
    storage.put(f".hoodie/timeline/{INSTANT}.deltacommit.inflight", b"")
    server.create(storage, A)
    request = {"query": {"markerdirpath": directory_of(storage)}, "token": token(storage)}

    refused = server.ask("POST", f"{BASE_PATH}/dir/delete", **request)  # type: ignore[arg-type]
    decide(storage, "rollback")
    deleted = server.ask("POST", f"{BASE_PATH}/dir/delete", **request)  # type: ignore[arg-type]

    assert (refused.status, refused.content, refused.result) == (409, False, "pending")
    assert (deleted.status, deleted.content) == (200, True)


@pytest.mark.parametrize("separator", ["json", "lines"])
def test_names_in_bulk_are_one_batch_with_an_answer_each(
    server: ServerProcess, storage: LocalStorage, separator: str
) -> None:
    server.create(storage, B)
    body = json.dumps([A, B, C]) if separator == "json" else f"{A}\n{B}\n{C}\n"

    answer = server.ask(
        "POST",
        f"{BASE_PATH}/create-all",
        query={"markerdirpath": directory_of(storage), "requestid": "bulk"},
        token=token(storage),
        body=body,
    )

    assert (answer.status, answer.content) == (200, ["created", "exists", "created"])
    assert [marker.name for marker in read_markers(storage, INSTANT)] == [A, B, C]


def test_a_bulk_with_one_bad_name_writes_nothing(
    server: ServerProcess, storage: LocalStorage
) -> None:
    for body in (json.dumps([A, "../x.marker.CREATE"]), json.dumps([A, 7]), "[", "", "{}"):
        answer = server.ask(
            "POST",
            f"{BASE_PATH}/create-all",
            query={"markerdirpath": directory_of(storage)},
            token=token(storage),
            body=body,
        )
        assert answer.status == 400, body

    assert storage.list_tree(".hoodie/.temp") == []


def test_5000_markers_make_20_files_at_most(server: ServerProcess, storage: LocalStorage) -> None:
    markers = open_markers(server.settings(storage), storage, INSTANT)
    wanted = [Marker("p=1", f"f{n}.parquet", IOType.CREATE) for n in range(5_000)]

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: markers.create_all(wanted[n::200]), range(200)))

    files = {info.name for info in storage.list_files(f".hoodie/.temp/{INSTANT}")}
    assert len(read_markers(storage, INSTANT)) == 5_000
    numbers = range(20)
    named = {f"{kind}{number}" for kind in ("MARKERS", "REQUESTS") for number in numbers}
    assert files <= named | {"MARKERS.type"}
    assert "MARKERS.type" in files


def test_a_decided_instant_is_refused_by_status_and_header(
    server: ServerProcess, storage: LocalStorage
) -> None:
    decide(storage, "commit")

    answer = server.create(storage, A)

    assert (answer.status, answer.result) == (409, "fenced")
    assert storage.list_tree(".hoodie/.temp") == []


# ---------------------------------------------------------- a client's view, overload, operations


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server whose queue holds ten, and which flushes once in 300 ms."""
    root = tmp_path / "tables"
    root.mkdir()
    running = ServerProcess(root, options=("--queue-max", "10", "--interval-ms", "300")).start()
    yield running
    running.stop()


def test_a_full_queue_says_come_back_and_the_client_does(narrow: ServerProcess) -> None:
    storage = new_table(narrow.root)

    with ThreadPoolExecutor(20) as threads:
        answers = list(
            threads.map(lambda n: narrow.create(storage, f"f{n}.marker.CREATE"), range(20))
        )

    busy = [answer for answer in answers if answer.status == 503]
    assert busy
    assert {answer.headers["Retry-After"] for answer in busy} == {"1"}
    assert len(read_markers(storage, INSTANT)) == 20 - len(busy)
    markers = open_markers(narrow.settings(storage), storage, INSTANT)
    with ThreadPoolExecutor(20) as threads:
        list(threads.map(lambda n: markers.create(_marker(n)), range(20)))
    assert len(read_markers(storage, INSTANT)) == 20


def test_a_set_interval_delays_the_answer(narrow: ServerProcess) -> None:
    storage, clock = new_table(narrow.root), SystemClock()
    started_s = clock.monotonic_s()

    narrow.create(storage, A)

    assert clock.monotonic_s() - started_s >= 0.3


def test_a_drained_server_flushed_everything_and_takes_nothing_new(narrow: ServerProcess) -> None:
    storage = new_table(narrow.root)
    with ThreadPoolExecutor(5) as threads:
        waiting = [threads.submit(narrow.create, storage, f"f{n}.marker.CREATE") for n in range(5)]
        while (sampled := sample(narrow.url, SECRET, 5.0)) is None or sampled["queue_depth"] != 5:
            pass

        assert drain(narrow.url, SECRET, 10.0)

        assert len(read_markers(storage, INSTANT)) == 5
        assert {each.result().status for each in waiting} == {200}
    assert narrow.create(storage, A).status == 503
    assert narrow.all(storage) == [f"f{n}.marker.CREATE" for n in range(5)]
    health = probe(narrow.url, 5.0)
    assert health is not None
    assert health.status == "draining"


def test_the_figures_say_what_happened(server: ServerProcess, storage: LocalStorage) -> None:
    storage.put(f".hoodie/.heartbeat/{INSTANT}", b'{"writer": "ingest"}')
    server.create(storage, A)
    server.create(storage, A)
    server.create(storage, "../x")

    figures = sample(server.url, SECRET, 5.0)

    assert figures is not None
    directories = figures["directories"]
    assert isinstance(directories, list)
    [ours] = [each for each in directories if each["table"] == storage.location]
    assert ours["writer"] == "ingest"
    assert (ours["markers"], ours["files"]) == (1, {"MARKERS0": 1})
    assert {"queue_depth", "in_flight", "batches", "batch_sizes", "latency_ms"} <= set(figures)


def test_without_a_token_only_this_machine_is_served_and_only_by_leave(tmp_path: Path) -> None:
    root = tmp_path / "tables"
    root.mkdir()
    running = ServerProcess(root, options=("--allow-unauthenticated-loopback",)).start()
    storage = new_table(root)
    query = {"markerdirpath": directory_of(storage), "markername": A}

    served = running.ask("POST", f"{BASE_PATH}/create", query=query)
    with_a_wrong_one = running.ask("POST", f"{BASE_PATH}/create", query=query, token="made up")
    running.stop()

    assert (served.status, served.result) == (200, "created")
    assert with_a_wrong_one.status == 403


def test_a_refusal_is_not_retried(server: ServerProcess, storage: LocalStorage) -> None:
    clock = StillClock()
    ports = replace(system_ports(), clock=clock)
    markers = ServerMarkers(server.url, "wrong", storage.location, INSTANT, ports=ports)

    with pytest.raises(MarkerRefused, match="status=403"):
        markers.create(_marker(1))

    assert clock.now_ms() == START_MS


def test_a_server_that_stays_away_is_an_error_in_bounded_time(storage: LocalStorage) -> None:
    clock = StillClock()
    ports = replace(system_ports(), clock=clock)
    markers = ServerMarkers(
        "http://127.0.0.1:9", None, storage.location, INSTANT, retry_window_s=0.5, ports=ports
    )

    with pytest.raises(MarkerRefused, match="did not answer in time"):
        markers.create(_marker(1))

    assert START_MS < clock.now_ms() < START_MS + 500
    assert storage.list_tree(".hoodie/.temp") == []


@pytest.mark.parametrize("url", ["", "127.0.0.1:1", "https://h:1", "http://h", "http://h:x"])
def test_a_wrong_address_is_said_at_once(storage: LocalStorage, url: str) -> None:
    with pytest.raises(InvalidInput):
        ServerMarkers(url, None, storage.location, INSTANT)


def test_a_fenced_writer_hears_it_from_the_server(
    server: ServerProcess, storage: LocalStorage
) -> None:
    markers = open_markers(server.settings(storage), storage, INSTANT)
    decide(storage, "rollback")

    with pytest.raises(InstantRolledBack):
        markers.create(_marker(1))


@pytest.mark.parametrize("path", ["create", "create-all"])
@pytest.mark.parametrize("is_known", [False, True], ids=["unknown", "known before"])
def test_instant_that_is_older_than_the_archived_part_gets_no_marker(
    server: ServerProcess, storage: LocalStorage, path: str, is_known: bool
) -> None:
    """Its decision object went with the archive; nothing but the border tells."""
    if is_known:
        server.create(storage, B)
    raise_archived_before(storage, LATER)
    query = {"markerdirpath": directory_of(storage), "markername": A}

    refused = server.ask(
        "POST", f"{BASE_PATH}/{path}", query=query, token=token(storage), body=json.dumps([A])
    )
    beyond = server.create(storage, C, instant=LATER)

    assert (refused.status, refused.result) == (409, "fenced"), refused
    assert read_markers(storage, INSTANT) == ((parse_marker(B),) if is_known else ())
    assert server.all(storage) == ([B] if is_known else [])
    assert (beyond.status, beyond.result) == (200, "created")


def _marker(number: int) -> Marker:
    return Marker("", f"f{number}", IOType.CREATE)
