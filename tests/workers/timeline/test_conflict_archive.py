"""Conflicts that outlast their decision objects."""

from __future__ import annotations

import json

import pytest

from tests.support.crash_ports import StillClock
from tests.support.memory_storage import MemoryStorage
from workers.errors import MalformedTable
from workers.table_layout import LOST_WRITES
from workers.timeline import conflict_archive, decisions
from workers.timeline.decisions import RollbackDecision

CONFLICT = {"kind": "write", "file_groups": [["p", "f"]]}


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(StillClock())


def decided(storage: MemoryStorage, instant: str, *, has_conflict: bool = True) -> None:
    conflict = CONFLICT if has_conflict else None
    decision = RollbackDecision(by="r", nonce=instant, reason="lost", conflict=conflict)
    decisions.decide(storage, instant, decision)


def archive(storage: MemoryStorage, start: str, *, pending: frozenset[str] = frozenset()) -> None:
    decisions.raise_archived_before(storage, start)
    conflict_archive.keep_archived(storage, pending)
    decisions.remove_archived(storage, pending, start)


def at(number: int) -> str:
    return f"2026010100{number:07d}"


def test_conflicts_of_archived_instants_are_kept_with_their_time(storage: MemoryStorage) -> None:
    decided(storage, at(1))
    decision_file = storage.info(decisions.get_decision_path(at(1)))
    assert decision_file is not None

    archive(storage, at(5))

    assert decisions.list_decided_instants(storage) == []
    kept = conflict_archive.read_kept(storage, at(1))
    assert kept is not None
    assert kept[0].conflict == CONFLICT
    assert kept[1] == decision_file.modified_ms


def test_other_rollbacks_later_ones_and_pending_ones_are_not(storage: MemoryStorage) -> None:
    decided(storage, at(1), has_conflict=False)
    decided(storage, at(2))
    decided(storage, at(6))

    archive(storage, at(5), pending=frozenset({at(2)}))

    assert conflict_archive.list_instants(storage) == []
    assert decisions.list_decided_instants(storage) == [at(2), at(6)]


def test_only_the_newest_are_kept(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conflict_archive, "KEPT_MAX", 3)
    for number in range(5):
        decided(storage, at(number))

    archive(storage, at(9))

    assert conflict_archive.list_instants(storage) == [at(2), at(3), at(4)]


def test_decision_that_cannot_be_read_does_not_stop_archiving(storage: MemoryStorage) -> None:
    storage.put(decisions.get_decision_path(at(1)), b"{")
    decided(storage, at(2))

    archive(storage, at(5))

    assert conflict_archive.list_instants(storage) == [at(2)]


def test_damaged_copy_is_named(storage: MemoryStorage) -> None:
    decided(storage, at(1))
    archive(storage, at(5))
    storage.put(f"{LOST_WRITES.path}/{at(1)}", json.dumps({"decided_ms": 1}).encode())

    with pytest.raises(MalformedTable, match=at(1)):
        conflict_archive.read_kept(storage, at(1))
