"""Files of attempts that were not taken go before the commit, however the markers look."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from workers.markers import markers_directory
from workers.storage.local import LocalStorage
from workers.timeline.metadata import WriteStat
from workers.write.instant_cleanup import delete_unreferenced_files
from workers.write.status import WriteStatus

INSTANT = "20240101000000000"
OTHER = "20240101000000001"
DIRECTORY = markers_directory(INSTANT)


def data_file(number: int, attempt: int, instant: str = INSTANT) -> str:
    file_id = f"{number:08d}-0000-0000-0000-000000000000-0"
    return f"p={number % 2}/{file_id}_{number}-0-{attempt}_{instant}.parquet"


TAKEN = [data_file(number, 0) for number in range(4)]
LEFT = [data_file(number, 1) for number in range(4)]


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    storage = LocalStorage(tmp_path)
    for path in (*TAKEN, *LEFT, data_file(0, 0, OTHER)):
        storage.put(path, b"rows")
    return storage


def marker_names() -> list[str]:
    return [f"{path}.marker.CREATE" for path in (*TAKEN, *LEFT)]


def direct(storage: LocalStorage, names: list[str]) -> None:
    for name in names:
        storage.put(f"{DIRECTORY}/{name}", b"")


def batched(storage: LocalStorage, names: list[str]) -> None:
    storage.put(f"{DIRECTORY}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    storage.put(f"{DIRECTORY}/MARKERS0", "".join(f"{name}\n" for name in names[::2]).encode())
    storage.put(f"{DIRECTORY}/MARKERS1", "".join(f"{name}\n" for name in names[1::2]).encode())


def both(storage: LocalStorage, names: list[str]) -> None:
    direct(storage, names[:5])
    batched(storage, names[3:])


def without_type(storage: LocalStorage, names: list[str]) -> None:
    batched(storage, names)
    storage.delete(f"{DIRECTORY}/MARKERS.type")


def torn(storage: LocalStorage, names: list[str]) -> None:
    batched(storage, names)
    storage.append(f"{DIRECTORY}/MARKERS0", names[0].encode()[:30])


def with_garbage(storage: LocalStorage, names: list[str]) -> None:
    batched(storage, names)
    storage.append(f"{DIRECTORY}/MARKERS1", b"\xff\xfe\n\n../../etc.marker.CREATE\nno marker\n")
    storage.put(f"{DIRECTORY}/p=0/README", b"hello")
    other = f"{data_file(0, 0, OTHER)}.marker.CREATE"
    storage.append(f"{DIRECTORY}/MARKERS0", f"{other}\n".encode())


def half_lost(storage: LocalStorage, names: list[str]) -> None:
    batched(storage, names)
    storage.delete(f"{DIRECTORY}/MARKERS1")


def lost(storage: LocalStorage, names: list[str]) -> None:
    del storage, names


@pytest.mark.parametrize(
    "layout", [direct, batched, both, without_type, torn, with_garbage, half_lost, lost]
)
def test_what_was_not_taken_goes_and_nothing_else(
    storage: LocalStorage, layout: Callable[[LocalStorage, list[str]], None]
) -> None:
    layout(storage, marker_names())
    statuses = [WriteStatus(WriteStat("f", path, path.partition("/")[0]), rows=1) for path in TAKEN]

    strays = delete_unreferenced_files(storage, INSTANT, statuses)

    assert strays == sorted(LEFT)
    paths_left = [info.path for part in ("p=0", "p=1") for info in storage.list_files(part)]
    assert sorted(paths_left) == sorted([*TAKEN, data_file(0, 0, OTHER)])
