"""Upgrading and adopting a table, crashed at every storage call, and each run after it in turn.

Whoever reads meanwhile, also with a handle from before, sees the same rows; hudi-rs sees them in
every state that a death leaves; and the next run ends where an undisturbed one does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bench.support.golden import ARCHIVES, MISSING, golden_archive
from tests.crash.digests import digest
from tests.crash.harness import COW, MOR, Kind, State, died_everywhere, made
from tests.crash.operations import UPSERT
from tests.support.crash_ports import START_MS, StillClock, still_ports
from tests.support.memory_storage import Files, MemoryStorage
from tests.support.old_tables import files_of, with_oldest_archived
from tests.support.referee import referee_table
from workers.files.properties import load_properties, store_properties
from workers.lakehouse import LakehouseTable, open_table
from workers.options.write_options import write_options
from workers.storage.base import FileInfo
from workers.table_services.service import ServiceRequest
from workers.table_services.upgrade.service import Upgrade
from workers.timeline.instant import Instant

pytestmark = pytest.mark.skipif(not ARCHIVES, reason=MISSING)

STARTS: Mapping[str, Callable[[], Files]] = {
    "v6-cow-overwritten": lambda: files_of(golden_archive("cow-v6_simplekeygen")),
    "v6-cow-empty": lambda: files_of(golden_archive("cow-v6_empty")),
    "v6-mor-avro": lambda: files_of(golden_archive("mor-avro-v6_trips")),
    "v6-mor-rollback": lambda: files_of(golden_archive("mor-parquet-v6")),
    "v6-mor-archived": lambda: with_oldest_archived(files_of(golden_archive("mor-avro-v6_trips"))),
    "v8-cow": lambda: files_of(golden_archive("cow-v8_complex")),
}


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("name", STARTS)
def test_table_is_of_the_old_or_the_new_version_whatever_call_dies(
    name: str, tmp_path: Path
) -> None:
    start = State(STARTS[name](), START_MS)
    rows, story = rows_of(opened(start)), history(opened(start))

    deaths = died_everywhere(start, upgrade)

    end = deaths[-1]
    assert opened(end).table.config.version == 9
    assert rows_of(opened(end)) == rows
    seen: set[str] = set()
    for number, crashed in enumerate(deaths):
        assert rows_of(opened(crashed)) == rows
        assert history(opened(crashed)) == story
        assert len(referee_rows(crashed, tmp_path / str(number))) == len(rows)
        for again in died_everywhere(crashed, upgrade):
            if digest(again.files) not in seen:
                seen.add(digest(again.files))
                assert rows_of(opened(again)) == rows
                assert digest(died_everywhere(again, upgrade)[-1].files) == digest(end.files)
    assert len(deaths) >= 4


def test_what_was_confirmed_once_is_finished_wherever_it_died() -> None:
    """A job that is sent again has the hash of the plan that a person saw."""
    start = State(STARTS["v6-mor-archived"](), START_MS)
    shown = Upgrade().plan(opened(start).table, {}).plan_hash
    request = ServiceRequest("again", expected_plan_hash=shown)
    end = died_everywhere(start, upgrade)[-1]

    for crashed in died_everywhere(start, upgrade):
        table = opened(crashed)
        Upgrade().run(table.table, request, write_options({}))
        assert isinstance(table.table.storage, MemoryStorage)
        assert digest(table.table.storage.files) == digest(end.files)


@pytest.mark.parametrize("name", ["v6-cow-overwritten", "v6-mor-rollback", "v6-mor-archived"])
def test_reader_whose_table_is_upgraded_at_any_call_sees_the_same_rows(name: str) -> None:
    """Between two of its own calls everything happens: the switch, and the end of the old one."""
    start = State(STARTS[name](), START_MS)
    rows = rows_of(opened(start))
    after = died_everywhere(start, upgrade)[-1]
    at = 0
    while True:
        storage = _MovingOn(StillClock(start.now_ms), start.files, after.files, at=at)
        reader = open_table(
            storage.location, ports=still_ports(StillClock(), prefix="reader"), storage=storage
        )
        assert rows_of(reader) == rows
        if not storage.has_moved:
            break
        at += 1
    assert at >= 4


class _MovingOn(MemoryStorage):
    """Whose files are others from a certain reading call on."""

    def __init__(self, clock: StillClock, files: Files, then: Files, *, at: int) -> None:
        super().__init__(clock, files)
        self._then = then
        self._left = at
        self.has_moved = False

    def read(self, path: str) -> bytes:
        self._count()
        return super().read(path)

    def list_tree(self, directory: str) -> list[FileInfo]:
        self._count()
        return super().list_tree(directory)

    def _count(self) -> None:
        if not self._left:
            self.files, self.has_moved = dict(self._then), True
        self._left -= 1


@pytest.mark.parametrize("kind", [COW, MOR], ids=["cow", "mor"])
def test_table_is_adopted_or_not_whatever_call_dies(kind: Kind) -> None:
    start = forgotten(made(kind, (UPSERT,)))
    rows = rows_of(opened(start))

    deaths = died_everywhere(start, adopt)

    end = deaths[-1]
    assert opened(end).table.write_refusal is None
    for crashed in deaths:
        assert rows_of(opened(crashed)) == rows
        for again in died_everywhere(crashed, adopt):
            assert rows_of(opened(again)) == rows
            assert died_everywhere(again, adopt)[-1].files.keys() == end.files.keys()
            assert opened(died_everywhere(again, adopt)[-1]).table.write_refusal is None
    assert len(deaths) >= 4


def upgrade(table: LakehouseTable) -> None:
    table.upgrade()


def adopt(table: LakehouseTable) -> None:
    table.adopt({"hoodie.bucket.index.num.buckets": "2"})


def forgotten(state: State) -> State:
    """As Hudi leaves a table with a bucket index: nothing says that it has one."""
    storage = MemoryStorage(StillClock(state.now_ms), state.files)
    properties = load_properties(storage)
    for key in ("hoodie.bucket.index.num.buckets", "hoodie.index.type"):
        del properties[key]
    store_properties(storage, {**properties, "hoodie.table.timeline.timezone": "LOCAL"})
    return State(storage.files, state.now_ms)


def opened(state: State) -> LakehouseTable:
    clock = StillClock(state.now_ms)
    storage = MemoryStorage(clock, state.files)
    ports = still_ports(clock, prefix=f"at{state.now_ms}")
    return open_table(storage.location, ports=ports, storage=storage)


def rows_of(table: LakehouseTable) -> list[str]:
    return sorted(repr(row) for row in table.read().to_pylist())


def history(table: LakehouseTable) -> list[tuple[str, str, str]]:
    """The timeline with its history; completion times are what version 6 does not tell."""
    return [_identity(one) for one in table.timeline(archived=True)]


def _identity(instant: Instant) -> tuple[str, str, str]:
    return instant.requested_at, instant.action.value, instant.state.value


def referee_rows(state: State, directory: Path) -> list[str]:
    MemoryStorage(StillClock(state.now_ms), state.files).dump(directory)
    return [repr(row) for row in referee_table(directory).to_pylist()]
