"""A node with SLUICE_DEMO=0 loads nothing of the demo, and its pages, commands and processes have
nothing of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controlplane.node.places import PROJECT

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parent / "site_program.py"


def looked_at(tmp_path: Path, **environ: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "controlplane.settings.test",
            "SLUICE_TEST_DATABASE": "",  # In memory, wherever the other tests have theirs.
            "PYTHONPATH": str(PROJECT),
            "SLUICE_TABLE_ROOTS": str(tmp_path),
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    site: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return site


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return looked_at(tmp_path_factory.mktemp("without"), SLUICE_DEMO="0")


@pytest.fixture(scope="module")
def with_it(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return looked_at(tmp_path_factory.mktemp("with"), SLUICE_DEMO="")


@pytest.mark.slow
def test_no_module_of_the_demo_is_loaded(without: dict[str, Any], with_it: dict[str, Any]) -> None:
    assert without["modules"] == []
    assert {"controlplane.demo.tasks", "web.demo.pages"} <= set(with_it["modules"])


def test_pages_have_no_button_and_no_address_of_it(
    without: dict[str, Any], with_it: dict[str, Any]
) -> None:
    assert without["live"].count("<form") < with_it["live"].count("<form")
    assert "Kill a writer" in with_it["live"]
    for page in ("live", "tables"):
        assert "demo" not in without[page].lower()
        assert "demo" in with_it[page].lower()
    assert with_it["pressed"] == [302, 302, 404]
    assert without["pressed"] == [404, 404, 404]
    assert (without["part"], with_it["part"]) == (404, 200)


def test_node_has_neither_its_processes_nor_its_tasks_nor_its_command(
    without: dict[str, Any], with_it: dict[str, Any]
) -> None:
    assert without["processes"] == []
    assert with_it["processes"] == ["kafka", "orders"]
    assert without["tasks"] == []
    assert with_it["tasks"] == ["controlplane.demo.kill_writer", "controlplane.demo.restart"]
    assert set(with_it["commands"]) - set(without["commands"]) == {"demo"}
    kinds = ["arrow", "csv", "json", "kafka", "parquet", "postgresql", "sql"]
    assert without["sources"] == kinds
    assert "--no-demo" not in without["up"]
    assert "--no-demo" in with_it["up"]
