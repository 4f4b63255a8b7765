"""Apache Hudi as the second judge, and as a writer into our tables: one process for a session.

`python -m tests.support.hudi_peer --prepare` makes its environment, once for each checkout (some
minutes): a venv with its Spark, and its jars.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.support.hudi_environment import HudiEnvironment, HudiMissing, hudi_environment

_PROCESS = Path(__file__).with_name("hudi_peer_process.py")
_NO_METADATA = {"hoodie.metadata.enable": "false"}


_PREPARE = "make hudi-peer"
_QUICK_S = 200.0
"""Less than a test may take; half of it is usual with a fast network."""


class PeerFailed(AssertionError):
    """Apache Hudi raised; the message is its own."""


def require_hudi() -> HudiEnvironment:
    """Return where Apache Hudi is. Raises PeerFailed, with the command that prepares it."""
    environment = hudi_environment(within_s=_QUICK_S)
    if isinstance(environment, HudiMissing):
        raise PeerFailed(f"Apache Hudi is missing; run `{_PREPARE}`: {environment.reason}")
    return environment


class HudiPeer:
    """Not thread-safe: one request at a time."""

    def __init__(self, python: Path, jar: Path, scratch: Path) -> None:
        self._scratch = scratch
        self._count = 0
        self._log: deque[str] = deque(maxlen=200)
        self._process = subprocess.Popen(
            [str(python), str(_PROCESS), str(jar)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=scratch,
            env=_environment(python),
        )
        threading.Thread(target=self._drain, daemon=True).start()
        self.spark_version: str = self._answer()["ready"]

    def read(self, location: Path, options: Mapping[str, str] | None = None) -> pa.Table:
        """The rows as Apache Hudi reads them, without meta columns; no columns if none."""
        out = self._fresh("read")
        given = _NO_METADATA | dict(options or {})
        answer = self._ask(do="read", path=str(location), out=str(out), options=given)
        if not answer["columns"]:
            return pa.table({})
        parts = sorted(out.glob("*.parquet"))
        return pa.concat_tables([pq.read_table(part) for part in parts])

    def write(self, location: Path, rows: pa.Table, options: Mapping[str, str]) -> None:
        file = self._fresh("write").with_suffix(".parquet")
        pq.write_table(rows, file, store_schema=False, coerce_timestamps="us")
        given = _NO_METADATA | dict(options)
        self._ask(do="write", path=str(location), rows=str(file), options=given)

    def sql(self, *statements: str) -> list[list[list[str]]]:
        answers: list[list[list[str]]] = self._ask(do="sql", statements=statements)["answers"]
        return answers

    def count_under_lock(
        self, location: Path, file: Path, times: int, options: Mapping[str, str]
    ) -> int:
        """Add `times` to the number in `file`, one by one, each under Hudi's lock of the table."""
        given = dict(options)
        answer = self._ask(
            do="lock", path=str(location), file=str(file), times=times, hold_s=0.003, options=given
        )
        return int(answer["count"])

    def buckets(self, keys: Sequence[str], fields: str, buckets: int) -> list[int]:
        """Where Apache Hudi's BucketIdentifier puts these record keys."""
        answer = self._ask(do="buckets", keys=list(keys), fields=fields, buckets=buckets)
        bucket_numbers: list[int] = answer["found"]
        return bucket_numbers

    def bloom_filter(
        self, keys: Sequence[str], kind: str, entries: int, false_positives: float, entries_max: int
    ) -> str:
        """The text of the filter that Apache Hudi makes of these keys."""
        size = {"entries": entries, "fpp": false_positives, "entries_max": entries_max}
        answer = self._ask(do="bloom_filter", keys=list(keys), kind=kind, **size)
        text: str = answer["text"]
        return text

    def might_contain(self, text: str, kind: str, keys: Sequence[str]) -> list[bool]:
        """What Apache Hudi finds in the filter of this text."""
        answer = self._ask(do="might_contain", text=text, kind=kind, keys=list(keys))
        maybe_contained: list[bool] = answer["found"]
        return maybe_contained

    def partitions(
        self, values: Sequence[int | float | str | None], options: Mapping[str, str]
    ) -> list[str | None]:
        """The paths that Apache Hudi's TimestampBasedAvroKeyGenerator makes of these values; None
        of one that it refuses.
        """
        answer = self._ask(do="partitions", values=list(values), options=dict(options))
        paths: list[str | None] = answer["found"]
        return paths

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """Whatever it is at. Its Spark ends with the pipe that it had to this process's child."""
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _fresh(self, what: str) -> Path:
        self._count += 1
        return self._scratch / f"{what}-{self._count}"

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if "error" in answer:
            raise PeerFailed(f"{request['do']}: {answer['error']}\n{answer['trace']}")
        return answer

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@@"):
                answer: dict[str, Any] = json.loads(line[2:])
                return answer
        raise PeerFailed("Apache Hudi's process ended:\n" + "".join(self._log))

    def _drain(self) -> None:
        assert self._process.stderr is not None
        self._log.extend(self._process.stderr)


def write_options(
    *,
    name: str,
    record_key: Sequence[str],
    partition_by: Sequence[str] = (),
    ordering: Sequence[str] = (),
    buckets: int,
    table_type: str,
    operation: str = "upsert",
    **more: str,
) -> dict[str, str]:
    """What a Hudi writer must be told about one of our tables."""
    key_generator = (
        "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
        if not partition_by
        else "org.apache.hudi.keygen.SimpleKeyGenerator"
        if len(record_key) == len(partition_by) == 1
        else "org.apache.hudi.keygen.ComplexKeyGenerator"
    )
    given = {
        "hoodie.table.name": name,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": operation,
        "hoodie.datasource.write.recordkey.field": ",".join(record_key),
        "hoodie.datasource.write.partitionpath.field": ",".join(partition_by),
        "hoodie.datasource.write.keygenerator.class": key_generator,
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(buckets),
        "hoodie.bucket.index.hash.field": ",".join(record_key),
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.upsert.shuffle.parallelism": "2",
    }
    if ordering:
        given["hoodie.datasource.write.precombine.field"] = ",".join(ordering)
    return given | more


def _environment(python: Path) -> dict[str, str]:
    """Only what Spark needs: our own SPARK_* and PYTHONPATH would mislead it."""
    import os

    names = ("PATH", "HOME", "JAVA_HOME", "JAVA_TOOL_OPTIONS")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return kept | {"PYSPARK_PYTHON": str(python), "TZ": "UTC"}


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.hudi_peer")
    parser.add_argument(
        "--prepare", action="store_true", required=True, help="make what is missing"
    )
    parser.parse_args(words)
    environment = hudi_environment()
    if isinstance(environment, HudiMissing):
        sys.exit(f"Apache Hudi is not ready: {environment.reason}")
    sys.stdout.write(f"Apache Hudi is ready: {environment.jar}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
