"""A table beside an attacked one, whose files and names nobody may touch."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.scenario_table import READINGS, ScenarioTable
from workers.errors import LakehouseError
from workers.lakehouse import create_table

FILE_ID = "00000000-0000-0000-0000-000000000000-0"
_THREAD_STARTS = "_thread.start_new_thread"
_EFFECTS: dict[str, dict[int, int | None]] = {
    "os.remove": {0: 1}, "os.rmdir": {0: 1}, "os.mkdir": {0: 2}, "os.truncate": {0: None},
    "os.rename": {0: 2, 1: 3}, "os.link": {1: 3}, "os.symlink": {1: 2},
}  # fmt: skip
"""By event: where its paths stand, and the descriptors of the directories that they start from."""


@dataclass(slots=True)
class _Watch:
    """Changes outside of `folder` by the thread that made the watch, and by its descendants."""

    folder: Path
    threads: set[int]
    started: set[threading.Thread]
    effects: list[str]

    def is_watched(self) -> bool:
        if threading.get_ident() in self.threads:
            return True
        # `current_thread` would make an object for a thread that is not in the list yet.
        me = threading.get_ident()
        return any(thread.ident == me and thread.is_alive() for thread in self.started)


_watches: list[_Watch] = []


def _record(event: str, arguments: tuple[Any, ...]) -> None:
    """See Python's audit events: an event of one thread is seen by this function in that thread."""
    if not _watches or (event not in _EFFECTS and event != _THREAD_STARTS):
        return
    watch = _watches[-1]
    if not watch.is_watched():
        return
    if event == _THREAD_STARTS:
        if isinstance(thread := getattr(arguments[0], "__self__", None), threading.Thread):
            watch.started.add(thread)
        return
    for at, descriptor_at in _EFFECTS[event].items():
        path = os.fsdecode(arguments[at])
        if descriptor_at is not None and arguments[descriptor_at] >= 0:
            path = f"/proc/self/fd/{arguments[descriptor_at]}/{path}"
        parent, name = os.path.split(Path.cwd() / path)
        place = f"{os.path.realpath(parent)}/{name}"
        if not f"{place}/".startswith(f"{watch.folder}/"):
            watch.effects.append(f"{event} {place}")


sys.addaudithook(_record)


class Victim:
    """A table beside another one, and a file there for each name that an attacker may plant."""

    def __init__(self, attacked: ScenarioTable) -> None:
        self.attacked = attacked
        self.place = attacked.location.parent / "victim"
        create_table(
            self.place, name="victim", schema=READINGS, record_key=["id"], partition_by=["place"]
        ).write(pa.Table.from_pylist([row(1)], READINGS), operation="insert")

    def file_of(self, instant: str) -> str:
        """The name of a data file there that says it is of `instant`."""
        name = f"{FILE_ID}_0-0-0_{instant}.parquet"
        for directory in (self.place, self.place / "p"):
            (directory / name).write_text("somebody else's")
        return name

    def content(self) -> dict[str, bytes]:
        files = (path for path in self.place.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in files}

    @contextmanager
    def untouched(self) -> Iterator[None]:
        before = self.content()
        watch = _Watch(self.attacked.location.resolve(), {threading.get_ident()}, set(), [])
        _watches.append(watch)
        try:
            yield
        finally:
            _watches.pop()
        assert watch.effects == []
        assert self.content() == before

    def spellings(self, instant: str) -> list[str]:
        """Ways to write that file's path in the attacked table's files."""
        name = self.file_of(instant)
        here = self.attacked.location
        climbing = [
            f"{start}{slash.join((dots, *rest, name))}"
            for start in ("", "./", "p/../", ".hoodie/../", f"{here}/", f"file://{here}/")
            for dots, slash in (("..", "/"), ("..", "//"), ("..", "\\"), ("%2e%2e", "/"),
                                ("..", "%2f"), ("\u2024\u2024", "/"), ("..\t", "/"))
            for rest in (("victim",), ("victim", "p"))
        ]  # fmt: skip
        absolute = [f"{scheme}{self.place}/{name}" for scheme in ("", "/", "file:", "file://")]
        odd = [f"{here}-evil/../victim/{name}", f"../victim/{name}\x00", f"\n../victim/{name}"]
        return [*climbing, *absolute, *odd]

    def partitions(self) -> list[str]:
        """Ways to write its directories as a partition."""
        ups = ("..", "p/../..", "%2e%2e", "./..", "..\\", "\u2024\u2024", str(self.place.parent))
        return [f"{up}/victim{below}" for up in ups for below in ("", "/p")]


def row(number: int) -> dict[str, object]:
    return {"id": str(number), "place": "p", "ts": number, "value": number}


def finished_somehow(step: Callable[[], object]) -> None:
    """Refusing is right as well: a table that was tampered with need not go on."""
    try:
        step()
    except LakehouseError as refused:
        assert refused.message  # noqa: PT017 - there need not be one
