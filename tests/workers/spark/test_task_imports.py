"""The packages that tasks import: clusters must have them, so the list is short and fixed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from workers.spark.remote_packages import PACKAGES, SINK_PACKAGE

PROJECT = Path(__file__).resolve().parents[3]
TASKS = (
    "workers.spark.placement",
    "workers.spark.row_jobs",
    "workers.spark.shares",
    "workers.spark.statements",
    "workers.spark.table_services",
    "workers.spark.tagging",
    "workers.spark.top_n_dataframe",
    "workers.spark.work",
    "workers.spark.read",
    "workers.spark.key_partitions",
    "workers.spark.datasource",
)
"""Modules of the functions that Spark calls in tasks."""
SPARK = {"pyspark", "py4j"}
"""Each executor of Spark has them."""
TABLES = set(PACKAGES)
OF_PANDAS = {"dateutil", "pytz", "six"}
IMPORT_ALONE = """
import importlib, importlib.abc, json, sys
from importlib.machinery import PathFinder
site_packages, allowed = sys.argv[1], set(json.loads(sys.argv[2]))
class Others(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if "." in name or name in allowed:
            return None
        spec = PathFinder.find_spec(name)
        if spec is not None and (spec.origin or "").startswith(site_packages):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Others())
for name in sys.argv[3:]:
    importlib.import_module(name)
print("imported")
"""


def import_alone(allowed: set[str], *modules: str) -> str:
    """Import in a process that has no other packages; what it prints."""
    site_packages = str(Path(pytest.__file__).parents[1])
    ended = subprocess.run(
        [sys.executable, "-c", IMPORT_ALONE, site_packages, json.dumps(sorted(allowed)), *modules],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.stdout + ended.stderr


def test_tasks_import_only_the_packages_that_clusters_are_asked_for() -> None:
    """Neither grpc, which Connect's client needs, nor psutil, which locks need."""
    assert import_alone(SPARK | TABLES | OF_PANDAS, *TASKS) == "imported\n"


@pytest.mark.slow
def test_tasks_of_a_sink_import_a_kafka_client_as_well() -> None:
    allowed = SPARK | TABLES | OF_PANDAS

    assert import_alone(allowed | {SINK_PACKAGE}, "workers.spark.sink") == "imported\n"
    assert f"No module named '{SINK_PACKAGE}'" in import_alone(allowed, "workers.spark.sink")
