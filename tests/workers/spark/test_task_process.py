"""What a task leaves behind costs the next one of its process nothing."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from pathlib import Path
from zipimport import zipimporter

import pytest

from workers.spark.task_process import spare_next_task


@pytest.mark.slow
def test_archives_are_not_read_again_and_imports_from_them_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "sluice_archive.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("sluice_first.py", "said = 1")
        made.writestr("sluice_second.py", "said = 2")
    monkeypatch.syspath_prepend(archive)
    assert importlib.import_module("sluice_first").said == 1
    assert isinstance(sys.path_importer_cache[str(archive)], zipimporter)

    spare_next_task()

    assert str(archive) not in sys.path_importer_cache
    assert importlib.import_module("sluice_second").said == 2


def test_modules_are_no_garbage_to_look_through() -> None:
    """In a process of its own: what is frozen is never collected, open connections included."""
    program = (
        "import gc; from workers.spark.task_process import spare_next_task; "
        "before = gc.get_freeze_count(); spare_next_task(); print(before, gc.get_freeze_count())"
    )

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    before, after = map(int, ended.stdout.split())
    assert (before, after > 1_000) == (0, True)
