"""Threats T1, T3: a link inside a table leads nobody into another, whatever is done with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from tests.support.table_services import run
from tests.support.victim import FILE_ID, Victim, finished_somehow, row
from workers.errors import StorageFailed
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.storage.local import LocalStorage

OPTIONS = write_options({})
TIMELINE = ".hoodie/timeline"
PLANNED = "20300101000000000"


@pytest.fixture
def table(tables: ScenarioTables) -> ScenarioTable:
    return tables(schema=READINGS, partition_by=["place"])


LINKS: dict[str, Callable[[Victim, str], tuple[str, str]]] = {
    "a partition": lambda _, __: ("q", "p"),
    "what is above partitions": lambda _, __: ("q", ""),
    "the markers": lambda _, instant: (f".hoodie/.temp/{instant}", "p"),
    "all markers": lambda _, __: (".hoodie/.temp", ".hoodie"),
    "the timeline": lambda _, __: (TIMELINE, TIMELINE),
    "the history": lambda _, __: (f"{TIMELINE}/history", "p"),
    "heartbeats": lambda _, __: (".hoodie/.heartbeat", "p"),
    "what is ours": lambda _, __: (".hoodie/.sluice", ".hoodie/.sluice"),
    "decisions": lambda _, __: (".hoodie/.sluice/decision", ".hoodie/.sluice/decision"),
    "a file of a partition": lambda _, instant: (
        f"p/{FILE_ID}_0-0-0_{instant}.parquet", f"p/{FILE_ID}_0-0-0_{instant}.parquet",
    ),
    "versions of a file": lambda _, __: ("p/.sluice-swap-x", "p"),
    "the properties": lambda _, __: (".hoodie/hoodie.properties", ".hoodie/hoodie.properties"),
}  # fmt: skip


@pytest.mark.parametrize("linked", LINKS)
def test_a_link_in_a_table_leads_into_no_other(table: ScenarioTable, linked: str) -> None:
    table.excuse_referee("a link stands in it")
    victim = Victim(table)
    table.writer("first").upsert_and_commit(row(1))
    dead = table.writer("dead").upsert(row(7))
    instant = dead.last_instant
    dead.dies()
    victim.file_of(instant)
    (table.location / "p" / f"{FILE_ID}_0-0-0_{instant}.parquet").write_text("of the dead")
    link, target = LINKS[linked](victim, instant)
    place = table.location / link
    if place.exists():
        place.rename(place.with_name(f".was-{place.name}"))
    place.symlink_to(victim.place / target)

    with victim.untouched():
        for step in (
            lambda: roll_back_dead_writers(open_table(table.location).table, OPTIONS),
            lambda: table.writer("next").upsert_and_commit(row(2)),
            lambda: run(open_table(table.location).table, "clean", commits="1"),
            lambda: run(open_table(table.location).table, "repair"),
            lambda: open_table(table.location).read(),
        ):
            finished_somehow(step)

    place.unlink()
    was = place.with_name(f".was-{place.name}")
    if was.exists():
        was.rename(place)


CALLS: dict[str, Callable[[LocalStorage, str], object]] = {
    "read": lambda storage, path: storage.read(path),
    "open": lambda storage, path: storage.open_data(path).close(),
    "append": lambda storage, path: storage.append(path, b"x"),
    "put": lambda storage, path: storage.put(path, b"x"),
    "put if absent": lambda storage, path: storage.put_if_absent(f"{path}.new", b"x"),
    "put empty": lambda storage, path: storage.put_empty([f"{path}.new"]),
    "replace": lambda storage, path: storage.replace_if_match(path, b"x", "a tag"),
    "delete": lambda storage, path: storage.delete(path),
    "delete below": lambda storage, path: storage.delete_tree(path.rpartition("/")[0]),
    "list": lambda storage, path: storage.list_files(path.rpartition("/")[0]),
    "list names": lambda storage, path: storage.list_names(path.rpartition("/")[0]),
    "list all": lambda storage, path: storage.list_tree(""),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("was_seen", [False, True], ids=["at once", "after it was a directory"])
def test_no_call_of_a_table_goes_through_a_link(
    table: ScenarioTable, call: str, was_seen: bool
) -> None:
    victim = Victim(table)
    name = victim.file_of(PLANNED)
    storage = LocalStorage(table.location)
    place = table.location / "q"
    if was_seen:
        place.mkdir()
        storage.list_files("q")
        place.rmdir()
        if not call.startswith("delete"):
            storage = LocalStorage(table.location)  # What is deleted is looked at each time.
    place.symlink_to(victim.place / "p")

    with victim.untouched(), pytest.raises(StorageFailed, match="link"):
        CALLS[call](storage, f"q/{name}")

    place.unlink()


@pytest.mark.parametrize("call", ["read", "open", "append"])
def test_no_file_of_a_table_is_a_link(table: ScenarioTable, call: str) -> None:
    victim = Victim(table)
    (table.location / "q").symlink_to(victim.place / victim.file_of(PLANNED))

    with victim.untouched(), pytest.raises(StorageFailed):
        CALLS[call](LocalStorage(table.location), "q")

    (table.location / "q").unlink()


@pytest.mark.parametrize("call", ["delete", "put", "replace"])
def test_versions_of_a_file_are_not_looked_for_behind_a_link(
    table: ScenarioTable, call: str
) -> None:
    victim = Victim(table)
    victim.file_of(PLANNED)
    (table.location / "x").write_text("x")
    (table.location / ".sluice-swap-x").symlink_to(victim.place / "p")

    with victim.untouched(), pytest.raises(StorageFailed, match="link"):
        CALLS[call](LocalStorage(table.location), "x")

    (table.location / ".sluice-swap-x").unlink()
