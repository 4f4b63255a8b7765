"""Threat T7: a table that names classes, of Java or of Python, has none of them loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from tests.support.foreign_properties import change_as_hudi
from workers.errors import LakehouseError
from workers.lakehouse import create_table
from workers.options.table_keys import TABLE_OPTIONS

CANARY = "sluice_canary_of_a_table"
KEYS = (
    "hoodie.compaction.payload.class",
    "hoodie.datasource.write.payload.class",
    "hoodie.table.legacy.payload.class",
    "hoodie.table.keygenerator.class",
    "hoodie.table.keygenerator.type",
    "hoodie.table.partial.update.mode",
    "hoodie.record.merge.mode",
    "hoodie.record.merge.strategy.id",
    "hoodie.write.record.merge.custom.implementation.classes",
    "hoodie.write.lock.provider",
    "hoodie.write.lock.conflict.resolution.strategy",
    "hoodie.archivelog.folder",
    "hoodie.table.index.type",
    "hoodie.index.class",
    "hoodie.meta.sync.client.tool.class",
    "hoodie.clean.policy",
    "hoodie.clustering.plan.strategy.class",
    "sluice.record.merger",
    "sluice.input.modules",
)
NAMES = (
    CANARY,
    f"{CANARY}.Canary",
    f"{CANARY}:Canary",
    f"com.evil.{CANARY}",
    f"__import__('{CANARY}')",
)
WORDS = {
    "sluice.record.merger",  # The name under which a program registered a function of its own.
    "hoodie.multistream.tombstone.retention",
}
"""Options that are any word, and looked up in a list of our own."""
OPEN = """
import sys
from workers.errors import LakehouseError
from workers.lakehouse import open_table

for place in sys.argv[1:]:
    for step in ("read", "timeline", "schema", "compact", "clean"):
        try:
            getattr(open_table(place), step)()
        except LakehouseError:
            pass
print(sorted(name for name in sys.modules if "canary" in name or name in ("jpype", "py4j")))
"""


def test_no_name_in_a_tables_properties_is_loaded(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    module = tmp_path / f"{CANARY}.py"
    module.write_text(f"import pathlib\npathlib.Path({str(touched)!r}).touch()\n")
    schema = pa.schema([pa.field("id", pa.string())])
    places = [tmp_path / f"t{number}" for number in range(len(NAMES))]
    for place, name in zip(places, NAMES, strict=True):
        create_table(place, name="t", schema=schema, record_key=["id"])
        change_as_hudi(place, dict.fromkeys(KEYS, name))

    ran = subprocess.run(
        [sys.executable, "-c", OPEN, *map(str, places)], capture_output=True, text=True,
        check=False,
        env={"PYTHONPATH": f"{tmp_path}:{Path(__file__).resolve().parents[2]}", "PATH": "/bin"},
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "[]"
    assert not touched.exists()


def test_no_option_of_a_table_is_a_class(tmp_path: Path) -> None:
    """Names of classes that Hudi has are words of a list here; others are refused."""
    schema = pa.schema([pa.field("id", pa.string())])
    taken = set()
    for key in (*KEYS, *TABLE_OPTIONS.defaults):
        try:
            create_table(
                tmp_path / key, name="t", schema=schema, record_key=["id"],
                options={key: f"com.evil.{CANARY}"},
            )  # fmt: skip
        except LakehouseError:
            continue
        taken.add(key)

    assert taken <= WORDS
