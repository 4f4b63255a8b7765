"""Apache Hudi's own LockManager and our writers, kept apart by Hudi's lock file."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.hudi_peer import HudiPeer
from workers.concurrency.lock_takeover import table_lock
from workers.errors import LeaseLost
from workers.lakehouse import create_table, open_table
from workers.options.write_options import write_options

pytestmark = pytest.mark.interop

HUDI = {
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    ),
    "hoodie.write.lock.client.num_retries": "500",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "20",
    "hoodie.write.lock.num_retries": "500",
    "hoodie.write.lock.wait_time_ms_between_retry": "20",
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
}
OURS = write_options({"hoodie.write.lock.provider": HUDI["hoodie.write.lock.provider"]})
TIMES = 30


def test_hudis_lock_manager_and_our_writers_lose_no_number(
    location: Path, tmp_path: Path, peer: HudiPeer
) -> None:
    create_table(location, name="locked", schema=pa.schema({"id": pa.int64()}), record_key=["id"])
    number = tmp_path / "number"
    number.write_text("0")

    with ThreadPoolExecutor(3) as pool:
        ours = [pool.submit(_count, location, number) for _ in range(2)]
        hudis = pool.submit(peer.count_under_lock, location, number, TIMES, HUDI)
        counted = hudis.result() + sum(one.result() for one in ours)

    assert counted == 3 * TIMES
    assert number.read_text() == str(counted)


def _count(location: Path, number: Path) -> int:
    """Whoever finds out that the file was taken from him has changed nothing, and tries again."""
    table = open_table(location).table
    count = 0
    while count < TIMES:
        try:
            with table_lock(table, OURS).hold() as lease:
                before = int(number.read_text())
                lease.confirm()
                number.write_text(str(before + 1))
                count += 1
        except LeaseLost:
            continue
        time.sleep(0.02)  # Hudi asks every 20 ms only, and is not to starve.
    return count
