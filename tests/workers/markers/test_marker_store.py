"""Reading marker directories in every state that writers, crashes and others leave behind."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.watched_storage import At, WatchedStorage
from tests.workers.markers.harness import INSTANT, LATER, decide
from workers.errors import InstantRolledBack
from workers.markers import (
    delete_markers,
    is_fenced,
    markers_directory,
    pending_marker_instants,
    read_markers,
)
from workers.markers.appender import MarkersAppender, MarkersVanished
from workers.markers.fence import can_delete_markers, raise_if_fenced
from workers.markers.journal import Journal, Request, read_journal
from workers.markers.store import read_names, remove_unacknowledged
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


@pytest.mark.parametrize(
    ("files", "are_some_lost"),
    [
        ((), False),
        (("MARKERS.type",), False),
        (("MARKERS.type", "MARKERS0"), False),
        (("MARKERS.type", "MARKERS0", "MARKERS1"), False),
        (("MARKERS0",), True),
        (("MARKERS.type", "MARKERS1"), True),
        (("MARKERS.type", "MARKERS0", "MARKERS2"), True),
        ((A,), False),
    ],
)
def test_a_gap_among_the_files_of_names_says_that_some_are_lost(
    storage: LocalStorage, files: tuple[str, ...], are_some_lost: bool
) -> None:
    for file in files:
        storage.put(f"{DIRECTORY}/{file}", b"")

    assert read_names(storage, INSTANT).are_some_lost is are_some_lost


class CrowdedStorage(LocalStorage):
    """Somebody adds a file whenever a directory is being deleted, so many times."""

    def __init__(self, root: Path, times: int, number: int = errno.ENOTEMPTY) -> None:
        super().__init__(root)
        self.attempts = 0
        self._times, self._number = times, number

    def delete_tree(self, directory: str) -> None:
        self.attempts += 1
        if self.attempts <= self._times:
            raise OSError(self._number, os.strerror(self._number), directory)
        super().delete_tree(directory)


def test_a_directory_that_is_added_to_is_deleted_again_but_not_for_ever(
    storage: LocalStorage,
) -> None:
    lay_out(storage, MARKERS0=f"{A}\n")
    busy = CrowdedStorage(Path(storage.location), times=4)
    delete_markers(busy, INSTANT)
    assert (busy.attempts, names(storage)) == (5, [])

    always = CrowdedStorage(Path(storage.location), times=100)
    with pytest.raises(OSError, match="not empty"):
        delete_markers(always, INSTANT)
    assert always.attempts == 5


def test_a_directory_that_cannot_be_deleted_is_not_tried_again(storage: LocalStorage) -> None:
    forbidden = CrowdedStorage(Path(storage.location), times=100, number=errno.EACCES)

    with pytest.raises(OSError, match="denied"):
        delete_markers(forbidden, INSTANT)

    assert forbidden.attempts == 1


def test_what_is_deleted_while_it_is_read_holds_nothing(storage: LocalStorage) -> None:
    lay_out(storage, MARKERS0=f"{A}\n", REQUESTS0=f"0\tr\t{A}\n")
    for part in ("MARKERS0", "REQUESTS0"):
        reader = WatchedStorage(
            Path(storage.location),
            before=At("read", part, lambda: delete_markers(storage, INSTANT)),
        )

        assert read_names(reader, INSTANT).all() == (() if part == "MARKERS0" else (A,))
        assert read_journal(reader, INSTANT).creators == {}
        lay_out(storage, MARKERS0=f"{A}\n", REQUESTS0=f"0\tr\t{A}\n")


# ---- who asked


def test_of_two_lines_about_a_name_the_later_one_was_answered(storage: LocalStorage) -> None:
    """In whichever file it stands."""
    lay_out(
        storage,
        REQUESTS0=f"0\told\t{A}\n3\tnew\t{B}\t{C}\n",
        REQUESTS1=f"1\told\t{B}\n2\tnew\t{A}\n",
    )

    journal = read_journal(storage, INSTANT)

    assert journal.creators == {A: "new", B: "new", C: "new"}
    assert (journal.last_sequence, journal.exists) == (3, True)


def test_half_and_broken_lines_say_nothing_of_who_asked(storage: LocalStorage) -> None:
    lines = ["7", f"x\tr\t{A}", f"\u0663\tr\t{A}", f"-1\tr\t{A}", "", f"1\t\t{B}", f"2\tr\t{C}"]
    lay_out(storage, REQUESTS0="\n".join(lines))

    journal = read_journal(storage, INSTANT)

    assert journal.creators == {B: None}
    assert journal.last_sequence == 1


def test_without_a_journal_nobody_asked(storage: LocalStorage) -> None:
    lay_out(storage, MARKERS0=f"{A}\n")

    assert read_journal(storage, INSTANT) == Journal({}, -1, exists=False) == Journal()


# ---- taken back


def test_what_is_taken_back_leaves_no_directory_where_nothing_else_was(
    storage: LocalStorage,
) -> None:
    """Also when somebody has deleted the file of names meanwhile."""
    for names_there in (True, False):
        lay_out(storage, MARKERS_type="TIMELINE_SERVER_BASED", REQUESTS0=f"0\tr\t{A}\n")
        if names_there:
            lay_out(storage, MARKERS0=f"{A}\n")

        remove_unacknowledged(storage, INSTANT, 0, written_bytes=len(A) + 1)

        assert storage.list_tree(DIRECTORY) == []


def test_nothing_is_taken_back_from_a_file_with_other_lines(storage: LocalStorage) -> None:
    lay_out(storage, MARKERS_type="TIMELINE_SERVER_BASED", MARKERS0=f"{A}\n{B}\n")

    remove_unacknowledged(storage, INSTANT, 0, written_bytes=len(B) + 1)

    assert names(storage) == [A, B]


def test_names_in_other_files_stay_and_so_does_who_asked_for_them(storage: LocalStorage) -> None:
    lay_out(storage, MARKERS0=f"{B}\n", MARKERS1=f"{A}\n", REQUESTS1=f"0\tr\t{A}\n")

    remove_unacknowledged(storage, INSTANT, 0, written_bytes=len(B) + 1)

    assert names(storage) == [A]
    assert read_journal(storage, INSTANT).creators == {A: "r"}


# ---- appended


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


def test_half_a_name_that_is_all_there_is_is_whole_with_its_newline(
    storage: LocalStorage, appender: MarkersAppender
) -> None:
    lay_out(storage, MARKERS0=C)
    appender.load()

    assert appender.write(0, [B], [Request("r", [B])]) == (C,)

    assert names(storage) == [B, C]


def test_an_empty_file_of_names_is_gone_on_with(
    storage: LocalStorage, appender: MarkersAppender
) -> None:
    lay_out(storage, MARKERS0="")
    appender.load()

    assert appender.write(0, [B], [Request("r", [B])]) == ()

    assert storage.read(f"{DIRECTORY}/MARKERS0").decode() == f"{B}\n"


def test_the_type_stands_before_the_first_names(
    storage: LocalStorage, appender: MarkersAppender
) -> None:
    appender.load()
    appender.write(0, [A], [Request("r", [A])])

    assert read_names(storage, INSTANT).has_type
    assert not read_names(storage, INSTANT).are_some_lost


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
    raise_if_fenced(storage, LATER)
    with pytest.raises(InstantRolledBack, match="is decided"):
        raise_if_fenced(storage, INSTANT)


def test_our_own_instant_is_settled_when_it_is_decided(storage: LocalStorage) -> None:
    """Whatever files of it still stand."""
    storage.put(f".hoodie/timeline/{INSTANT}.commit.requested", b"")
    assert not can_delete_markers(storage, INSTANT)

    decide(storage, "rollback")

    assert can_delete_markers(storage, INSTANT)


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

    assert can_delete_markers(storage, INSTANT) is settled
