"""Apache Hudi's lock file, whose holder may be Hudi itself: it is respected, never trusted."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.clocks import SkewedClock
from tests.support.scenario_table import ScenarioTable
from tests.workers.concurrency.locks.conftest import Client
from workers.clock import SystemClock
from workers.concurrency.locks.hudi_file import SETTLE_S
from workers.concurrency.locks.status import read_lock
from workers.errors import LeaseLost, LockTimeout, StorageFailed
from workers.storage.lock_file import LockFile
from workers.table.table import Table

OPTIONS = {
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
    "sluice.lock.filesystem.pause_ms": "0",
}
EXPIRING = {**OPTIONS, "hoodie.write.lock.filesystem.expire": "1"}
INSTANT = "20240101000000000"


@pytest.fixture
def file(table: Table) -> Path:
    """Where Hudi looks for it by default."""
    return Path(table.storage.location) / ".hoodie" / "lock"


def taken_by_hudi(file: Path, *, minutes_ago: float = 0) -> None:
    """As Hudi leaves it on a local disk: empty, with a checksum beside it."""
    file.touch()
    file.with_name(".lock.crc").write_bytes(b"crc\x00\x00\x00\x02\x00")
    then = time.time() - minutes_ago * 60
    os.utime(file, (then, then))


def test_file_is_there_while_it_is_held_and_gone_after(table: Table, file: Path) -> None:
    with Client(table, OPTIONS).held() as lease:
        assert file.stat().st_size > 0
        lease.confirm()

    assert not file.exists()


def test_empty_file_is_a_writer_of_hudi_who_is_waited_for(table: Table, file: Path) -> None:
    taken_by_hudi(file)

    with pytest.raises(LockTimeout, match="holder=Apache Hudi") as refused:
        Client(table, OPTIONS).held().__enter__()

    assert f"path={file}" in str(refused.value)
    assert file.exists()

    waiting = Client(table, OPTIONS, wait_ms=60_000)
    threading.Timer(0.3, file.unlink).start()
    with waiting.held() as lease:
        lease.confirm()


def test_file_that_says_which_thread_of_hudi_has_it_is_waited_for(table: Table, file: Path) -> None:
    file.write_text('{"lockCreateTime": "now", "lockThreadName": "main"}')

    with pytest.raises(LockTimeout, match="holder=Apache Hudi"):
        Client(table, OPTIONS).held().__enter__()


def test_old_file_of_hudi_stays_for_ever_by_default(table: Table, file: Path) -> None:
    taken_by_hudi(file, minutes_ago=10_000)

    with pytest.raises(LockTimeout, match=r"hoodie\.write\.lock\.filesystem\.expire"):
        Client(table, OPTIONS).held().__enter__()

    assert file.exists()


def test_expired_file_of_hudi_is_removed_with_its_checksum(table: Table, file: Path) -> None:
    taken_by_hudi(file, minutes_ago=0.3)
    with pytest.raises(LockTimeout):
        Client(table, EXPIRING).held().__enter__()

    taken_by_hudi(file, minutes_ago=1.1)
    with Client(table, EXPIRING).held() as lease:
        lease.confirm()
        assert not file.with_name(".lock.crc").exists()


def test_left_checksum_disturbs_nobody(table: Table, file: Path) -> None:
    file.with_name(".lock.crc").write_bytes(b"crc\x00\x00\x00\x02\x00")

    with Client(table, OPTIONS).held() as lease:
        lease.confirm()


class Intruder(SystemClock):
    """A Hudi client that acts in the pause after our file was made: it had looked before."""

    def __init__(self, act: Callable[[], object], *, times: int = 1) -> None:
        self._act = act
        self.left = times

    def sleep(self, seconds: float) -> None:
        if seconds == SETTLE_S and self.left:
            self.left -= 1
            self._act()
        super().sleep(seconds)


def test_file_that_was_written_over_in_the_pause_is_left_alone(table: Table, file: Path) -> None:
    """Hudi looks, then opens: it truncates a file that came between."""
    intruder = Intruder(lambda: file.write_bytes(b""))

    with pytest.raises(LockTimeout, match="holder=Apache Hudi"):
        Client(table, OPTIONS, clock=intruder).held().__enter__()

    assert intruder.left == 0
    assert file.read_bytes() == b""


def test_file_that_went_in_the_pause_is_made_again(table: Table, file: Path) -> None:
    """A Hudi client that was refused the lock and closes removes the holder's file."""
    intruder = Intruder(file.unlink)

    with Client(table, OPTIONS, clock=intruder, wait_ms=60_000).held() as lease:
        lease.confirm()

    assert intruder.left == 0


@pytest.mark.parametrize("act", [Path.unlink, lambda file: file.write_bytes(b"")])
def test_holder_whose_file_was_taken_away_may_not_publish(
    table: Table, file: Path, act: Callable[[Path], object]
) -> None:
    with Client(table, OPTIONS).held() as lease:
        act(file)

        with pytest.raises(LeaseLost, match="another engine"):
            lease.confirm()


def test_only_ones_own_file_is_removed(table: Table, file: Path) -> None:
    with Client(table, OPTIONS).held():
        file.unlink()
        taken_by_hudi(file)

    assert file.read_bytes() == b""


def test_file_of_a_dead_writer_of_ours_goes_with_its_lease_whatever_expiry_says(
    table: Table, file: Path
) -> None:
    dead = Client(table, OPTIONS)
    holding = dead.held()
    holding.__enter__()
    dead.scheduler.stop_all()
    left = file.read_bytes()

    with Client(table, OPTIONS, clock=SkewedClock(3_600_000), wait_ms=60_000).held() as lease:
        lease.confirm()
        assert file.read_bytes() != left
        holding.__exit__(None, None, None)
        lease.confirm()

    assert not file.exists()


def test_our_writers_are_kept_apart_even_when_a_hudi_client_removed_the_file(
    table: Table, file: Path
) -> None:
    with Client(table, OPTIONS).held():
        file.unlink()

        with pytest.raises(LockTimeout, match="holder=sluice/"):
            Client(table, OPTIONS).held().__enter__()


def test_long_holding_stays_young_so_that_hudi_does_not_take_it_for_expired(
    table: Table, file: Path
) -> None:
    with Client(table, {**OPTIONS, "hoodie.write.lock.storage.renew.interval.secs": "1"}).held():
        long_ago = time.time() - 600
        os.utime(file, (long_ago, long_ago))
        deadline = time.monotonic() + 60
        while file.stat().st_mtime < long_ago + 300:
            assert time.monotonic() < deadline, "nobody keeps it young"
            time.sleep(0.05)


def test_writers_of_two_tables_may_share_a_directory(table: Table, tmp_path: Path) -> None:
    other = ScenarioTable(tmp_path / "other").table
    shared = {**OPTIONS, "hoodie.write.lock.filesystem.path": f"file://{tmp_path}/locks"}

    with Client(table, shared).held(), pytest.raises(LockTimeout, match="holder=sluice/"):
        Client(other, shared).held().__enter__()

    with Client(other, shared).held() as lease:
        lease.confirm()


def test_writer_steps_aside_after_a_commit_and_only_then(table: Table) -> None:
    slept: list[float] = []

    class Watched(SystemClock):
        def sleep(self, seconds: float) -> None:
            slept.append(seconds)

    options = {**OPTIONS, "sluice.lock.filesystem.pause_ms": "400"}
    with Client(table, options, clock=Watched()).held():
        pass
    assert slept == [SETTLE_S]

    with Client(table, options, clock=Watched()).held(completing=INSTANT):
        pass
    assert 0.2 <= slept[-1] <= 0.6


def test_directory_that_may_not_be_written_is_told(table: Table, tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("a file")
    options = {**OPTIONS, "hoodie.write.lock.filesystem.path": f"{tmp_path}/locks"}

    with pytest.raises(StorageFailed, match="directory may be written"):
        Client(table, options).held().__enter__()


def test_of_two_who_mean_one_old_file_one_removes_it(tmp_path: Path) -> None:
    file = LockFile(tmp_path / "lock")
    assert file.create(b"old")
    seen = file.read()
    assert seen is not None
    assert file.remove(seen)
    assert file.create(b"new")

    assert not file.remove(seen)

    lock_file = file.read()
    assert lock_file is not None
    assert lock_file.content == b"new"


def test_people_are_shown_that_hudi_has_it(table: Table, file: Path) -> None:
    with Client(table, OPTIONS).held():
        pass
    taken_by_hudi(file)

    view = read_lock(table.storage, SystemClock().now_ms())

    assert view.provider == "filesystem"
    assert view.holder is not None
    assert view.holder.owner == "Apache Hudi"
    assert view.holder.since_ms == file.stat().st_mtime_ns // 1_000_000


def test_writer_who_waits_for_hudi_is_shown_waiting_and_hudi_holding(
    table: Table, file: Path
) -> None:
    with Client(table, OPTIONS).held():
        pass
    taken_by_hudi(file)
    waiting = Client(table, OPTIONS, writer="patient", wait_ms=120_000)
    now_ms = SystemClock().now_ms

    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(lambda: waiting.held(completing=INSTANT).__enter__())
        deadline = time.monotonic() + 60
        while not (view := read_lock(table.storage, now_ms())).waiters:
            assert time.monotonic() < deadline, "nobody is seen waiting"
            time.sleep(0.02)
        file.unlink()
        holding = pending.result()

    assert [(one.writer, one.holder) for one in view.waiters] == [("patient", "Apache Hudi")]
    assert view.holder is not None
    assert view.holder.owner == "Apache Hudi"
    assert holding.waited_ms >= 1000
    assert read_lock(table.storage, now_ms()).waiters == ()


def test_choosing_it_warns_of_what_it_does_not_keep_apart(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        with Client(table, OPTIONS).held():
            pass

    # Other threads log too: `message` of a record is there only when its handler has formatted it.
    said = [text for text in caplog.messages if "Hudi writers are not kept" in text]
    assert len(said) == 1
