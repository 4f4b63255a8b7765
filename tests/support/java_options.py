"""What the tests ask of every Java machine that they start, and an archive of the classes that
Spark loads: with it a Spark starts with half of the processor time.

`python -m tests.support.java_options` makes the archive, once for each checkout (half a minute);
runs that start few Java machines do without where nobody made it. Java itself ignores an archive
that does not fit its classes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil
import pyarrow as pa

from workers.spark.connect_server import (
    PROJECT_ROOT,
    ConnectServerFailed,
    spark_home,
    start_connect_server,
    stop_connect_server,
)

_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""Tests start many Java machines for a few minutes each: Spark, Kafka, Apache Hudi. What the
second compiler costs they do not live to see come back.
"""
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Java would say on its standard output that the archive has other classes than a program needs."""
_FOLDER = PROJECT_ROOT / "var" / "java"
_WAIT_S = 300.0


def java_options() -> str:
    """Of every Java machine, as `JAVA_TOOL_OPTIONS` has them."""
    archive = _archive()
    if not archive.exists():
        return _SHORT_LIVED
    return f"{_SHORT_LIVED} -Xshare:auto -XX:SharedArchiveFile={archive} {_QUIET}"


def make_archive() -> None:
    """Unless it is there already. Raises ConnectServerFailed, OSError, psutil.TimeoutExpired."""
    archive = _archive()
    if archive.exists():
        return
    shutil.rmtree(_FOLDER, ignore_errors=True)  # Of other versions.
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sluice-java-") as work_dir:
        part = Path(work_dir) / archive.name
        options = f"-Dderby.system.home={work_dir} -XX:ArchiveClassesAtExit={part} {_QUIET}"
        server = start_connect_server(
            Path(work_dir),
            environment={"JAVA_TOOL_OPTIONS": _SHORT_LIVED, **os.environ},
            wait_s=_WAIT_S,
            more_settings={"spark.driver.extraJavaOptions": options},
        )
        try:
            _use(server.remote)
            process = psutil.Process(server.pid)
            process.terminate()  # It writes the archive when it ends.
            process.wait(_WAIT_S)
        finally:
            stop_connect_server(server)
        moved = shutil.move(part, archive.with_suffix(".part"))
        Path(moved).replace(archive)


def _use(remote: str) -> None:
    """Have Spark load what most sessions need."""
    from workers.spark.session import connect_session

    settings = {"spark.sql.shuffle.partitions": "2"}
    spark = connect_session(
        remote, session_id=str(uuid.uuid4()), user_id="tests", settings=settings
    )
    frame = spark.range(20).selectExpr("id % 7 as k", "cast(id as string) as text")
    passed = frame.mapInArrow(_same, "k long, text string")
    counted = passed.groupBy("k").count().join(frame, "k").orderBy("text").collect()
    assert len(counted) == 20
    spark.stop()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _archive() -> Path:
    """Named after what it was made of: Java's own classes and Spark's."""
    java = Path(shutil.which("java") or "java").resolve()
    jars = sorted((spark_home() / "jars").glob("*.jar"))
    made_of = hashlib.sha256()
    for file in (java, *jars):
        facts = file.stat() if file.exists() else None
        made_of.update(f"{file} {facts and (facts.st_size, facts.st_mtime_ns)}\n".encode())
    return _FOLDER / f"spark-{made_of.hexdigest()[:16]}.jsa"


if __name__ == "__main__":
    try:
        make_archive()
    except (ConnectServerFailed, OSError, psutil.TimeoutExpired) as error:
        sys.stderr.write(f"no archive of Java's classes, so Spark starts slower: {error}\n")
