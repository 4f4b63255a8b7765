"""The power goes at every step of every call that a table's directory makes durable.

Four kinds of loss: nothing that was not synced is there, names are there without their contents,
the first changes of each directory are there, and each unsynced change by chance. So a sync that is
missing, or comes too late, breaks a promise.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.support.memory_storage import Crash
from tests.support.power_loss import Chance, Disk, Draws, KeepsFirst, KeepsNames, LosesAll
from tests.support.promised_storage import Promised, PromisedStorage, broken_promises
from tests.support.recorded_disk import RecordedDisk
from workers.errors import NotFound
from workers.storage.base import Storage
from workers.storage.local import LocalStorage

SEED = int(os.environ["SLUICE_TEST_SEED"])
DRAWS = 30
NEW = "deep/down/file"
"""In directories that are not there yet."""
OLD = "standing/file"
TIMELINE = ".hoodie/timeline/001.commit.requested"


def _replace(storage: Storage) -> None:
    """Several times, so that something of an earlier one may come back."""
    storage.put_if_absent(OLD, b"first")
    for content in (b"second", b"third", b"fourth"):
        tag = storage.read_tagged(OLD).tag
        assert storage.replace_if_match(OLD, content, tag) is not None


def _replace_and_put(storage: Storage) -> None:
    _replace(storage)
    storage.put(OLD, b"fifth")
    storage.put(OLD, b"sixth")


def _replace_and_delete(storage: Storage) -> None:
    _replace(storage)
    storage.delete(OLD)
    assert storage.put_if_absent(OLD, b"anew")


def _create_data(path: str) -> Callable[[Storage], None]:
    def create(storage: Storage) -> None:
        storage.delete(path)
        with storage.create_data(path) as stream:
            stream.write(b"rows " * 5_000)
            stream.write(b"more")

    return create


def _append(path: str) -> Callable[[Storage], None]:
    def append(storage: Storage) -> None:
        storage.append(path, b"a line\n")
        storage.append(path, b"another\n")

    return append


CALLS: dict[str, Callable[[Storage], object]] = {
    "put-new": lambda storage: storage.put(NEW, b"content"),
    "put-old": lambda storage: storage.put(OLD, b"content"),
    "put-a-lock": lambda storage: storage.put(".hoodie/.locks/table_lock.json", b"held"),
    "put-if-absent": lambda storage: storage.put_if_absent(NEW, b"content"),
    "put-if-absent-empty": lambda storage: storage.put_if_absent(TIMELINE, b""),
    "put-empty": lambda storage: storage.put_empty([NEW, TIMELINE, "deep/other"]),
    "put-empty-once": lambda storage: storage.put_empty([NEW, TIMELINE], is_exclusive=True),
    "replace": _replace,
    "replace-and-put": _replace_and_put,
    "replace-and-delete": _replace_and_delete,
    "append-new": _append(NEW),
    "append-old": _append(OLD),
    "create-data": _create_data(NEW),
    "create-scratch": _create_data(".hoodie/.temp/001/rows.arrow"),
    "delete": lambda storage: storage.delete(OLD),
    "delete-many": lambda storage: storage.delete_many([OLD, "standing/other"]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_call_keeps_its_promise_whenever_the_power_goes(
    call: Callable[[Storage], object], tmp_path: Path
) -> None:
    disk, promised = _recorded(call, tmp_path / "table")

    for at_step, chance in _losses(disk):
        left = _disk_after(disk, at_step).after_power_loss(chance)
        assert broken_promises(promised, at_step, left) == [], (at_step, SEED)


@pytest.mark.parametrize(
    "call",
    [_replace, _replace_and_put, _replace_and_delete],
    ids=["replace", "put", "delete"],
)
def test_what_was_replaced_does_not_come_back_when_the_file_is_settled(
    call: Callable[[Storage], object], tmp_path: Path
) -> None:
    """Versions that are decided and not published are published by whoever reads next."""
    disk, promised = _recorded(call, tmp_path / "table")

    for number, (at_step, chance) in enumerate(_losses(disk)):
        left = _disk_after(disk, at_step).after_power_loss(chance)
        place = tmp_path / str(number)
        for path, content in left.items():
            file = place / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        _link_again(place)
        left |= _settled(place)
        assert broken_promises(promised, at_step, left) == [], (at_step, SEED)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_who_comes_after_a_killed_process_is_promised_as_much(
    call: Callable[[Storage], object], tmp_path: Path
) -> None:
    """What the dead one made and did not sync stands there for the next one, but not on disk."""
    alone, _ = _recorded(call, tmp_path / "alone")

    for dies_at in range(alone.began_at, len(alone.steps)):
        disk, promised = _recorded(call, tmp_path / str(dies_at), dies_at)
        disk.dies_at = None
        with disk.recorded():
            call(PromisedStorage(disk, promised))
        for chance in (LosesAll(), KeepsNames()):
            left = _disk_after(disk, len(disk.steps)).after_power_loss(chance)
            broken = broken_promises(promised, len(disk.steps), left)
            assert broken == [], (dies_at, type(chance).__name__)


def _recorded(
    call: Callable[[Storage], object], root: Path, dies_at: int | None = None
) -> tuple[RecordedDisk, list[Promised]]:
    storage = LocalStorage(root)
    storage.put(OLD, b"first")
    storage.put("standing/other", b"stays")
    disk = RecordedDisk(root, dies_at=dies_at)
    promised: list[Promised] = []
    with suppress(Crash), disk.recorded():
        call(PromisedStorage(disk, promised))
    assert promised
    return disk, promised


def _losses(disk: RecordedDisk) -> list[tuple[int, Chance]]:
    chances: list[Chance] = [LosesAll(), KeepsNames(), *map(KeepsFirst, range(1, 5))]
    chances += [Draws(Random(SEED + draw)) for draw in range(DRAWS)]
    return [
        (at_step, chance)
        for at_step in range(disk.began_at, len(disk.steps) + 1)
        for chance in chances
    ]


def _disk_after(disk: RecordedDisk, at_step: int) -> Disk:
    disk_then = Disk()
    disk_then.take(disk.steps[:at_step])
    return disk_then


def _settled(place: Path) -> dict[str, bytes]:
    try:
        return {OLD: LocalStorage(place).read_tagged(OLD).content}
    except NotFound:
        return {}


def _link_again(place: Path) -> None:
    """Two names of one file were laid out as two files."""
    for directory in place.rglob(".sluice-swap-*"):
        for number in [file for file in directory.iterdir() if file.name.isdecimal()]:
            for proposal in directory.glob(f"{number.name}-*"):
                if proposal.read_bytes() == number.read_bytes():
                    proposal.unlink()
                    os.link(number, proposal)
