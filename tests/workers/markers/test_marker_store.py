"""Reading marker directories in every state that writers, crashes and others leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.workers.markers.harness import INSTANT, LATER
from workers.markers import (
    delete_markers,
    is_fenced,
    markers_directory,
    pending_marker_instants,
    read_markers,
)
from workers.markers.appender import MarkersAppender, MarkersVanished
from workers.markers.fence import is_settled
from workers.markers.journal import Request, read_journal
from workers.storage.local import LocalStorage

DIRECTORY = markers_directory(INSTANT)
A, B, C = (f"p=1/{letter}.parquet.marker.CREATE" for letter in "abc")


def names(storage: LocalStorage) -> list[str]:
    return [marker.name for marker in read_markers(storage, INSTANT)]


def lay_out(storage: LocalStorage, **files: str) -> None:
    for name, content in files.items():
        storage.put(f"{DIRECTORY}/{name.replace('MARKERS_type', 'MARKERS.type')}", content.encode())


def test_hudis_server_layout_is_read(storage: LocalStorage) -> None:
    lay_out(
        storage, MARKERS_type="TIMELINE_SERVER_BASED", MARKERS0=f"{A}\n{C}\n", MARKERS1=f"{B}\n"
    )

    assert names(storage) == [A, B, C]


def test_hudis_direct_layout_is_read(storage: LocalStorage) -> None:
    for name in (B, A, "top.parquet.marker.MERGE"):
        storage.put(f"{DIRECTORY}/{name}", b"")

    assert names(storage) == ["top.parquet.marker.MERGE", A, B]


def test_a_missing_type_file_hides_no_marker(storage: LocalStorage) -> None:
    lay_out(storage, MARKERS0=f"{A}\n")

    assert names(storage) == [A]


def test_an_empty_type_file_hides_no_marker(storage: LocalStorage) -> None:
    lay_out(storage, MARKERS_type="", MARKERS7=f"{A}\n")

    assert names(storage) == [A]


def test_both_layouts_in_one_directory_are_one_set(storage: LocalStorage) -> None:
    lay_out(storage, MARKERS_type="TIMELINE_SERVER_BASED", MARKERS0=f"{A}\n{B}\n")
    storage.put(f"{DIRECTORY}/{B}", b"")
    storage.put(f"{DIRECTORY}/{C}", b"")

    assert names(storage) == [A, B, C]


def test_a_torn_last_line_was_never_acknowledged_and_is_dropped(storage: LocalStorage) -> None:
    whole = f"{A}\n{B}\n".encode()
    for length in range(len(whole) + 1):
        storage.put(f"{DIRECTORY}/MARKERS0", whole[:length])

        expected = [A] * (length > len(A)) + [B] * (length == len(whole))
        assert names(storage) == expected, length


def test_empty_doubled_and_broken_lines_are_skipped(storage: LocalStorage) -> None:
    lay_out(
        storage, MARKERS0=f"\n{A}\n\n{A}\n../x.marker.CREATE\nnonsense\n{B}\n", MARKERS3=f"{A}\n"
    )
    storage.append(f"{DIRECTORY}/MARKERS3", b"\xff\xfe.marker.CREATE\n")
    storage.put(f"{DIRECTORY}/README", b"hello")

    assert names(storage) == [A, B]


def test_an_absent_directory_holds_no_marker(storage: LocalStorage) -> None:
    assert names(storage) == []
    delete_markers(storage, INSTANT)


def test_deleting_takes_one_instants_markers_only(storage: LocalStorage) -> None:
    lay_out(storage, MARKERS0=f"{A}\n")
    storage.put(f"{markers_directory(LATER)}/{A}", b"")
    assert pending_marker_instants(storage) == (INSTANT, LATER)

    delete_markers(storage, INSTANT)

    assert pending_marker_instants(storage) == (LATER,)


@pytest.fixture
def appender(storage: LocalStorage) -> Iterator[MarkersAppender]:
    with ThreadPoolExecutor(1) as journal_pool:
        yield MarkersAppender(storage, INSTANT, journal_pool=journal_pool)


def test_a_half_line_never_merges_with_the_next_name(
    storage: LocalStorage, appender: MarkersAppender
) -> None:
    lay_out(storage, MARKERS0=f"{A}\np=1/half.parq")
    appender.load()

    finished = appender.write(0, [B], [Request("r", [B])])

    assert finished == ()
    assert names(storage) == [A, B]
    assert storage.read(f"{DIRECTORY}/MARKERS0").decode() == f"{A}\np=1/half.parq\n{B}\n"


def test_a_name_that_only_lacked_its_newline_is_reported_when_it_becomes_one(
    storage: LocalStorage, appender: MarkersAppender
) -> None:
    lay_out(storage, MARKERS0=f"{A}\n{C}")
    stored_names, _ = appender.load()
    assert stored_names.all() == (A,)

    finished = appender.write(0, [B], [Request("r", [B])])

    assert finished == (C,)
    assert names(storage) == [A, B, C]


def test_memory_is_not_believed_after_the_directory_was_deleted(
    storage: LocalStorage, appender: MarkersAppender
) -> None:
    appender.load()
    appender.write(0, [A], [Request("r", [A])])
    delete_markers(storage, INSTANT)

    with pytest.raises(MarkersVanished):
        appender.write(1, [B], [Request("r", [B])])
    appender.write(1, [B], [Request("r", [B])])

    assert names(storage) == [B]
    assert read_journal(storage, INSTANT).creators == {B: "r"}


def test_any_decision_fences(storage: LocalStorage) -> None:
    assert not is_fenced(storage, INSTANT)

    storage.put_if_absent(f".hoodie/.sluice/decision/{INSTANT}", b'{"outcome": "commit"}')

    assert is_fenced(storage, INSTANT)
    assert not is_fenced(storage, LATER)


@pytest.mark.parametrize(
    ("files", "settled"),
    [
        ((), True),
        (("timeline/{R}.commit.requested",), False),
        (("timeline/{R}.deltacommit.requested", "timeline/{R}.deltacommit.inflight"), False),
        (("timeline/{R}.commit.inflight", "timeline/{R}_20240101000000005.commit"), True),
        (("{R}.inflight", "{R}.commit.requested"), False),
        (("{R}.inflight", "{R}.commit"), True),
    ],
)
def test_a_foreign_instant_is_settled_when_nothing_of_it_is_pending(
    storage: LocalStorage, files: tuple[str, ...], settled: bool
) -> None:
    for file in files:
        storage.put(".hoodie/" + file.format(R=INSTANT), b"")

    assert is_settled(storage, INSTANT) is settled
