"""The Python of a cluster's executors: which version it is, and which packages it has.

Before the first write or read of a session on a cluster, a task on each executor answers, and one
sentence reports what is missing where. `python -m workers.spark.remote_packages <remote>` prints
the answers of a Connect server as one line of JSON. `doctor` starts it as a process of its own: it
never imports Spark, and a broken server cannot block it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from workers.errors import InvalidInput, LakehouseError
from workers.locations import is_bucket_location
from workers.ports import system_ports
from workers.spark.engine_archive import (
    engine_digest,
    is_connect,
    is_local_master,
    session_key,
    ship_engine,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES: Final = ("pyarrow", "numpy", "pandas", "fastavro")
"""Each task imports them."""
BUCKET_PACKAGE: Final = "obstore"
"""Tasks of tables in buckets import it."""
SINK_PACKAGE: Final = "confluent_kafka"
"""Tasks of sinks import it."""

_ALL: Final = (*PACKAGES, BUCKET_PACKAGE, SINK_PACKAGE)
_TASKS_MAX: Final = 256
_ROWS: Final = 4_096
_SHOWN_MAX: Final = 3
_MISMATCH: Final = re.compile(r"Python in worker has different version: ([0-9.]+)")
_NO_PROGRAM: Final = re.compile(r'Cannot run program "([^"\n]*)"')
_checked: set[tuple[str, tuple[str, ...]]] = set()
"""Session, and packages that its executors have."""


@dataclass(frozen=True, slots=True)
class PythonFacts:
    """What one Python process has."""

    place: str
    """The host, and on a cluster the folder of the executor."""
    python: str
    """As in `3.11`."""
    engine: str = ""
    """Digest of the engine that it imports; empty where there is none."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Name to version, empty where the package is missing."""
    engine_path: str = ""
    """The folder or zip from which it imports package `workers`; empty where there is none."""

    def describe(self) -> str:
        """Return the versions as text."""
        installed = (f"{name} {text}" for name, text in self.packages.items() if text)
        return ", ".join([f"python {self.python}", *installed])


def prepare_executors(spark: SparkSession, location: str, *packages: str) -> None:
    """Ship the engine to the executors of this session and check them, once for each session, for
    tasks that work on the table at `location` and import `packages` as well.

    Raises InvalidInput when they cannot run such tasks; nothing is written then. So does another
    package `workers` in the working folder of Spark's Python.
    """
    needed = (*PACKAGES, *packages)
    if is_bucket_location(location):
        needed = (*needed, BUCKET_PACKAGE)
    key = (session_key(spark), needed)
    if key in _checked:
        return
    if ship_engine(spark) is not None:
        check_executors(spark, needed)
    _checked.add(key)


def check_executors(spark: SparkSession, needed: Sequence[str] = PACKAGES) -> None:
    """Check that each executor can run the engine's tasks. Raises InvalidInput."""
    here = local_facts()
    there = fetch_executors(spark)
    if faults := find_faults(here, there, needed):
        versions = sorted({f"[{facts.describe()}]" for facts in there})
        raise InvalidInput(
            f"executors cannot run the engine's tasks, so nothing was written: {'; '.join(faults)};"
            " the Python that PYSPARK_PYTHON names there needs the driver's versions",
            driver=f"[{here.describe()}]",
            executors=" ".join(versions[:_SHOWN_MAX]),
        )


def find_faults(
    here: PythonFacts, there: Iterable[PythonFacts], needed: Sequence[str] = PACKAGES
) -> list[str]:
    """Return what keeps the Pythons `there` from running tasks of the driver `here`, with the
    places where it does.
    """
    places: dict[str, list[str]] = {}
    for facts in there:
        for fault in _faults(here, facts, needed):
            places.setdefault(fault, []).append(facts.place)
    return [f"{fault} at {_join_places(where)}" for fault, where in places.items()]


def fetch_executors(spark: SparkSession) -> tuple[PythonFacts, ...]:
    """Return what the Python of each executor has, from one job with a task for each free core.

    Raises InvalidInput when that Python does not start, or has another version than this one.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql.functions import col, udf

    names = _ALL

    # Tasks that lack the engine run it, so it is pickled whole and imports nothing of ours before.
    def describe(number: int) -> str:
        import json as to_text
        import socket
        import sys as system
        from importlib import metadata, util
        from pathlib import Path

        del number
        packages = {}
        for name in names:
            packages[name] = ""
            if util.find_spec(name) is not None:
                try:
                    packages[name] = metadata.version(name)
                except metadata.PackageNotFoundError:
                    packages[name] = "of unknown version"
        engine = engine_path = ""
        if (spec := util.find_spec("workers")) is not None:
            folders = list(spec.submodule_search_locations or ())
            engine_path = folders[0] if folders else str(spec.origin)
            try:
                from workers.spark.engine_archive import engine_digest as digest_there

                engine = digest_there()
            except Exception as error:  # noqa: BLE001 - it may be any package of this name.
                engine = f"damaged: {error}"
        place = f"{socket.gethostname()}:{Path.cwd()}"
        python = ".".join(map(str, system.version_info[:2]))
        facts = {
            "place": place,
            "python": python,
            "engine": engine,
            "packages": packages,
            "engine_path": engine_path,
        }
        return to_text.dumps(facts)

    tasks = max(1, min(count_slots(spark), _TASKS_MAX))
    try:
        if is_connect(spark):
            # Neither Arrow nor pandas are needed for a plain function.
            column = udf(describe, "string", useArrow=False)(col("id"))
            rows = spark.range(0, tasks, 1, tasks).select(column).collect()
            answers = {row[0] for row in rows}
        else:  # Executors run it sooner than SQL, which they have to compile first.
            numbers = spark.sparkContext.parallelize(range(tasks), tasks)
            answers = set(numbers.map(describe).collect())
    except (PySparkException, Py4JJavaError) as error:
        refusal = _as_refusal(error)
        if refusal is None:
            raise
        raise refusal from error
    return tuple(PythonFacts(**json.loads(answer)) for answer in sorted(answers))


def count_slots(spark: SparkSession) -> int:
    """Return how many tasks the executors of this session run at once; at least 1. An executor that
    registers later is not counted.
    """
    if is_connect(spark):
        # Without a number of partitions Spark makes one for each core.
        partitions = spark.range(_ROWS).selectExpr("spark_partition_id() AS number")
        return int(partitions.distinct().count())
    context: Any = spark.sparkContext
    if is_local_master(context.master):
        return int(context.defaultParallelism)
    executors = context._jsc.sc().statusStore().executorList(True)
    summaries = [executors.apply(number) for number in range(executors.size())]
    return max(1, sum(int(summary.maxTasks()) for summary in summaries))


def local_facts(names: Sequence[str] = _ALL) -> PythonFacts:
    """Return what this very process has."""
    packages = {name: _read_version(name) for name in names}
    python = ".".join(map(str, sys.version_info[:2]))
    return PythonFacts("the driver", python, engine_digest(), packages)


def fetch_remote(remote: str) -> tuple[PythonFacts, ...]:
    """Return what the executors of this Connect server have. Raises SparkUnreachable, and as
    `fetch_executors`.
    """
    from workers.spark.session import connect_session

    session_id = str(UUID(system_ports().ids.token()))
    spark = connect_session(remote, session_id=session_id, user_id="doctor")
    try:
        return fetch_executors(spark)
    finally:
        spark.stop()


def _faults(here: PythonFacts, there: PythonFacts, needed: Sequence[str]) -> list[str]:
    faults = []
    if there.python != here.python:
        faults.append(f"Python is {there.python} and not {here.python}")
    faults += [f"{name} is missing" for name in needed if not there.packages.get(name)]
    if not there.engine:
        faults.append("the engine (package workers) is missing")
    elif there.engine != here.engine:
        fault = "the engine (package workers) is another one than the driver's"
        if there.engine_path:
            fault += f" (rename or remove {there.engine_path})"
        faults.append(fault)
    return faults


def _join_places(places: Sequence[str]) -> str:
    rest = len(places) - _SHOWN_MAX
    return ", ".join(places[:_SHOWN_MAX]) + (f" and {rest} more" if rest > 0 else "")


def _as_refusal(error: Exception) -> InvalidInput | None:
    text = str(error)
    here = ".".join(map(str, sys.version_info[:2]))
    if mismatch := _MISMATCH.search(text):
        return InvalidInput(
            "executors have another Python than the driver, so nothing was written; name one of "
            "the same minor version by PYSPARK_PYTHON",
            driver=here,
            executors=mismatch[1],
        )
    if program := _NO_PROGRAM.search(text):
        return InvalidInput(
            "executors have no Python at this path, so nothing was written; name theirs by "
            "PYSPARK_PYTHON",
            path=program[1],
        )
    return None


def _read_version(name: str) -> str:
    if find_spec(name) is None:
        return ""
    try:
        return version(name)
    except PackageNotFoundError:
        return "of unknown version"


if __name__ == "__main__":
    try:
        answers = [asdict(facts) for facts in fetch_remote(sys.argv[1])]
        sys.stdout.write(json.dumps(answers) + "\n")
    except LakehouseError as error:
        sys.exit(str(error))
