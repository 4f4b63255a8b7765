"""What every kind of marker writer owes: direct files, and the server through HTTP."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.workers.markers.harness import INSTANT, LATER, ServerProcess, decide
from workers.errors import InstantRolledBack
from workers.markers import (
    IOType,
    Marker,
    MarkerSettings,
    MarkerWriter,
    delete_markers,
    open_markers,
    opener,
    read_markers,
)
from workers.storage.local import LocalStorage

Opener = Callable[..., MarkerWriter]
A = Marker("origin=EWR", "a.parquet", IOType.CREATE)
B = Marker("", ".b_20240101000000000.log.1_0-0-0", IOType.CREATE)


@pytest.fixture(params=["direct", "timeline_server_based"])
def opened(request: pytest.FixtureRequest, server: ServerProcess, storage: LocalStorage) -> Opener:
    def open_(instant: str = INSTANT) -> MarkerWriter:
        settings = MarkerSettings(kind="direct")
        if request.param != "direct":
            settings = server.settings(storage, instant)
        return open_markers(pickle.loads(pickle.dumps(settings)), storage, instant)

    return open_


def test_a_created_marker_is_on_storage(opened: Opener, storage: LocalStorage) -> None:
    markers = opened()

    assert markers.create(A) == "created"
    assert markers.create(B) == "created"

    assert read_markers(storage, INSTANT) == (B, A)


def test_a_marker_that_is_there_is_reported_as_such(opened: Opener, storage: LocalStorage) -> None:
    opened().create(A)

    assert opened().create(A) == "exists"

    assert read_markers(storage, INSTANT) == (A,)


def test_many_at_once_meet_what_is_there(opened: Opener, storage: LocalStorage) -> None:
    markers = opened()
    markers.create(A)

    markers.create_all([A, B])
    markers.create_all([])

    assert read_markers(storage, INSTANT) == (B, A)


def test_64_threads_lose_no_marker(opened: Opener, storage: LocalStorage) -> None:
    markers = opened()
    wanted = [Marker(f"p={n % 7}", f"f{n}.parquet", IOType.CREATE) for n in range(64 * 50)]

    def write(share: int) -> set[str]:
        return {markers.create(marker) for marker in wanted[share::64]}

    with ThreadPoolExecutor(64) as threads:
        answers = set().union(*threads.map(write, range(64)))

    assert answers == {"created"}
    assert read_markers(storage, INSTANT) == tuple(sorted(wanted))


def test_of_many_who_create_the_same_marker_one_creates_it(
    opened: Opener, storage: LocalStorage
) -> None:
    markers = opened()

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: markers.create(A), range(16)))

    assert sorted(answers) == ["created"] + ["exists"] * 15


@pytest.mark.parametrize("outcome", ["commit", "rollback"])
def test_a_decided_instant_gets_no_marker(
    opened: Opener, storage: LocalStorage, outcome: str
) -> None:
    markers = opened()
    markers.create(A)
    decide(storage, outcome)

    with pytest.raises(InstantRolledBack):
        markers.create(B)
    with pytest.raises(InstantRolledBack):
        markers.create_all([B])
    with pytest.raises(InstantRolledBack):
        markers.create(A)

    assert read_markers(storage, INSTANT) == (A,)


def test_a_zombies_request_brings_no_directory_back(opened: Opener, storage: LocalStorage) -> None:
    markers = opened()
    markers.create(A)
    decide(storage, "rollback")
    delete_markers(storage, INSTANT)

    with pytest.raises(InstantRolledBack):
        markers.create(B)

    assert storage.list_directories(".hoodie/.temp") == []


def test_instants_do_not_see_each_other(opened: Opener, storage: LocalStorage) -> None:
    opened(INSTANT).create(A)
    opened(LATER).create(B)
    decide(storage, "rollback", INSTANT)

    assert opened(LATER).create(A) == "created"

    assert read_markers(storage, INSTANT) == (A,)
    assert read_markers(storage, LATER) == (B, A)


def test_names_with_spaces_and_other_alphabets_arrive_unchanged(
    opened: Opener, storage: LocalStorage
) -> None:
    odd = Marker("by=Ålesund & Bodø/a+b=c?d#e", "f;1.parquet", IOType.MERGE)
    markers = opened()

    markers.create(odd)
    markers.create_all([odd])

    assert read_markers(storage, INSTANT) == (odd,)


def test_without_a_server_markers_are_direct_and_say_so_once_in_a_process(
    storage: LocalStorage, caplog: pytest.LogCaptureFixture
) -> None:
    opener._hint_once.cache_clear()
    markers = open_markers(MarkerSettings(), storage, INSTANT)

    markers.create(A)
    open_markers(MarkerSettings(), storage, LATER)

    assert caplog.text.count("no marker server is set") == 1
    assert storage.info(f".hoodie/.temp/{INSTANT}/{A.name}") is not None


def test_settings_never_print_their_token() -> None:
    assert "s3cret" not in repr(MarkerSettings(token="s3cret"))


class OvertakenStorage(LocalStorage):
    """A table on which a rollback is decided in the middle of the creation of a marker."""

    def put_if_absent(self, path: str, content: bytes) -> bool:
        if path.endswith(".marker.CREATE"):
            decide(LocalStorage(self.location), "rollback")
        return super().put_if_absent(path, content)


def test_a_rollback_decided_while_a_direct_marker_is_written_wins(storage: LocalStorage) -> None:
    overtaken = OvertakenStorage(storage.location)

    with pytest.raises(InstantRolledBack):
        open_markers(MarkerSettings(kind="direct"), overtaken, INSTANT).create(A)
