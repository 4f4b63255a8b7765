"""What a Spark Connect server's Python workers have: asked by running one task there.

`python -m workers.spark.remote_packages <remote>` prints one line of JSON; `doctor` starts it as a
process of its own, so that neither the control plane nor a broken server holds the other up.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from uuid import UUID

import pyarrow as pa

from workers.errors import LakehouseError
from workers.ports import system_ports
from workers.spark.session import connect_session

PACKAGES = ("pyarrow", "pandas", "fastavro", "numpy")


def ask(remote: str) -> dict[str, str]:
    """Name to version; `python` among them, and empty text for a package that is missing.

    Raises SparkUnreachable.
    """
    session_id = str(UUID(system_ports().ids.token()))
    spark = connect_session(remote, session_id=session_id, user_id="doctor")
    try:
        [row] = spark.range(1).mapInArrow(_versions_there, "found string").collect()
    finally:
        spark.stop()
    return dict(json.loads(row["found"]))


def installed(names: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    """What this very interpreter has."""
    versions = {"python": ".".join(map(str, sys.version_info[:2]))}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = ""
    return versions


def _versions_there(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            yield pa.RecordBatch.from_pydict({"found": [json.dumps(installed())]})


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(ask(sys.argv[1])) + "\n")
    except LakehouseError as error:
        sys.exit(str(error))
