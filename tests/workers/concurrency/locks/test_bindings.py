"""A table has one lock: who names another is refused, who names none takes it."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.lock_process import LockProcess
from tests.support.lock_providers import Servers, options_for
from tests.workers.concurrency.locks.conftest import Client
from workers.concurrency.locks.bindings import Binding, read_binding, this_process
from workers.concurrency.locks.status import read_lock
from workers.errors import InvalidInput, LockTimeout, MalformedTable, StorageFailed
from workers.options.lock_options import URL_VARIABLE
from workers.table.table import Table
from workers.table_layout import LOCK_BINDING

INSTANT = "20240101000000000"


def named(provider: str, **more: str) -> dict[str, str]:
    return {"hoodie.write.lock.provider": provider, "sluice.lock.filesystem.pause_ms": "0", **more}


def test_who_names_nothing_takes_the_lock_that_the_table_has(
    table: Table, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Services and the control plane are told nothing of locks but an address."""
    monkeypatch.setenv(URL_VARIABLE, options.get("sluice.lock.url", ""))

    with (
        Client(table, options).held(),
        pytest.raises(LockTimeout),
        Client(table, {}).held(),
    ):
        pass

    with Client(table, {}).held() as lease:
        bound = read_binding(table.storage)
        assert bound is not None
        assert lease.provider == bound.provider == options["hoodie.write.lock.provider"]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("storage", named("filesystem"), "hoodie.write.lock.provider=storage"),
        ("filesystem", named("storage"), "hoodie.write.lock.provider=filesystem"),
        (
            "filesystem",
            {**named("filesystem"), "hoodie.write.lock.filesystem.path": "/elsewhere"},
            "hoodie.write.lock.filesystem.path=",
        ),
        (
            "sqlite",
            {**named("database"), "sluice.lock.url": "sqlite:////elsewhere.db"},
            "sluice.lock.url=sqlite:///",
        ),
    ],
)
def test_who_names_another_is_refused_and_told_which(
    first: str, second: dict[str, str], said: str, table: Table, servers: Servers
) -> None:
    with Client(table, options_for(first, servers)).held():
        pass

    with pytest.raises(InvalidInput, match="two locks keep nobody apart") as refused:
        Client(table, second).held().__enter__()

    assert said in str(refused.value)
    assert LOCK_BINDING.path in str(refused.value)


def test_table_that_nobody_named_a_lock_for_gets_no_file(table: Table) -> None:
    with Client(table, {}).held():
        pass

    assert table.storage.info(LOCK_BINDING.path) is None


def test_of_two_who_name_different_locks_at_once_one_is_refused(
    table: Table, servers: Servers
) -> None:
    wanted = [options_for("filesystem", servers), options_for("sqlite", servers)] * 3

    def ask(options: dict[str, str]) -> str:
        try:
            with Client(table, options, wait_ms=60_000).held() as lease:
                return lease.provider
        except InvalidInput:
            return "refused"

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(ask, wanted))

    assert sorted(set(answers) - {"refused"}) == [read_lock(table.storage, 0).provider]
    assert answers.count("refused") == 3


def test_table_is_bound_only_to_what_answers(table: Table) -> None:
    nobody = {**named("redis"), "sluice.lock.url": "redis://:a-password@127.0.0.1:1/0"}

    with pytest.raises(StorageFailed, match="out of reach") as failed:
        Client(table, nobody).held().__enter__()

    assert "a-password" not in str(failed.value)
    assert table.storage.info(LOCK_BINDING.path) is None


def test_binding_holds_no_password(table: Table, servers: Servers) -> None:
    with Client(table, options_for("redis", servers)).held():
        stored = table.storage.read(LOCK_BINDING.path).decode()

    assert "a-password" not in stored
    assert json.loads(stored)["url"].startswith("redis://127.0.0.1:")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"provider": "storage"}', b'"x"'])
def test_damaged_binding_is_named(table: Table, content: bytes) -> None:
    table.storage.put(LOCK_BINDING.path, content)

    with pytest.raises(MalformedTable, match=r"lock_provider\.json"):
        Client(table, {}).held().__enter__()


@pytest.mark.slow
def test_writer_of_another_process_is_refused_an_in_process_lock(table: Table) -> None:
    with Client(table, named("in_process")).held():
        pass

    other = LockProcess(
        Path(table.storage.location), named("in_process"), do="hold", instant=INSTANT
    )
    with pytest.raises(AssertionError, match="locked inside another process"):
        other.next_answer()


@pytest.mark.slow
def test_in_process_lock_of_a_process_that_is_gone_binds_nobody(table: Table) -> None:
    script = (
        "import sys\n"
        "from workers.concurrency.lock_takeover import table_lock\n"
        "from workers.options.write_options import write_options\n"
        "from workers.lakehouse import open_table\n"
        "options = write_options({'hoodie.write.lock.provider': 'in_process'})\n"
        "with table_lock(open_table(sys.argv[1]).table, options).hold(): pass\n"
    )
    subprocess.run([sys.executable, "-c", script, table.storage.location], check=True)
    left = read_binding(table.storage)
    assert left is not None
    assert left.is_orphaned

    with Client(table, named("in_process")).held() as lease:
        lease.confirm()
        assert read_binding(table.storage) != left


def test_lock_that_changed_while_it_was_waited_for_is_not_taken(
    table: Table, servers: Servers
) -> None:
    """The file is changed under the old lock; who waited for that one looks again."""
    holding = Client(table, named("storage")).held()
    holding.__enter__()
    waiting = Client(table, {}, wait_ms=60_000)

    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(lambda: _held_by(waiting))
        table.storage.put(LOCK_BINDING.path, Binding("in_process", process=this_process()).encode())
        holding.__exit__(None, None, None)
        provider = pending.result()

    assert provider == "in_process"


def _held_by(client: Client) -> str:
    with client.held() as lease:
        return lease.provider
