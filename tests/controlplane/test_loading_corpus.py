"""The corpus of `tests/files` through every way of loading: each gives the expected rows of a
file, or refuses it and leaves nothing behind.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from controlplane.operations.table_creation.suggesting import sampled_rows
from tests.workers.loading.corpus import Case, cases, get_types, plain
from workers.errors import InvalidInput
from workers.lakehouse import create_table, open_table
from workers.loading.content import InputFile
from workers.table_services.given_rows import rows_of_file

CASES = cases()
EACH = pytest.mark.parametrize("case", CASES, ids=[case.path.name for case in CASES])


@EACH
def test_rows_of_an_overwrite_are_those_of_the_file(case: Case) -> None:
    parameters = {"path": str(case.path), **case.options}
    keys = [case.key] if case.key else []
    if case.refused:
        with pytest.raises(InvalidInput) as refusal:
            rows_of_file(parameters, case.table, keys=keys)
        assert re.search(case.refused, str(refusal.value), re.DOTALL)
        return

    rows = rows_of_file(parameters, case.table, keys=keys)

    assert (get_types(rows.schema), plain(rows.to_pylist())) == (case.types, case.rows)


@EACH
def test_preview_shows_what_will_be_stored(case: Case) -> None:
    is_by_key = bool(case.key)
    if case.refused and not is_by_key and "_1Min" not in case.refused:
        is_proposed = "Unit_Price" in case.refused or "same name" in case.refused
        if not is_proposed:
            with pytest.raises(InvalidInput):
                sampled_rows([InputFile.of(case.path)], case.options, case.table)
            return
    sample = sampled_rows([InputFile.of(case.path)], case.options, case.table)
    if case.refused:
        assert is_by_key or sample.options == {"names": "clean"}
        return

    left_out = [name for name in sample.rows.column_names if name not in case.types]
    stored = sample.rows.drop_columns(left_out)
    if case.table is not None:
        assert get_types(stored.schema) == case.types
        assert plain(stored.to_pylist()) == case.rows
    assert all(f"{name}" in "\n".join(sample.notes) or case.table is None for name in left_out)
    assert case.note in "\n".join(sample.notes) or case.table is None


@pytest.mark.sampled(every=12)
@EACH
def test_command_writes_the_rows_or_leaves_nothing_behind(
    case: Case, db: None, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_by_command(case, root, tmp_path, "--no-spark")


def write_by_command(case: Case, root: Path, tmp_path: Path, *more: str) -> None:
    """Write the file by `manage.py write` into the table of the case, or into a new one."""
    names = list(case.types) or (case.table.names if case.table else ["id"])
    key = case.key or names[0]
    file = tmp_path / case.path.name
    shutil.copyfile(case.path, file)
    location = root / "loaded"
    if case.table is not None:
        create_table(location, name="loaded", schema=case.table, record_key=[key])
    words = ["--name", "loaded", "--record-key", key, *more]
    for name, value in case.options.items():
        words.append(f"--{name.replace('_', '-')}={value}")
    if case.refused:
        with pytest.raises(CommandError) as refusal:
            call_command("write", str(file), *words)
        assert re.search(case.refused, str(refusal.value), re.DOTALL)
        assert location.exists() == (case.table is not None)
        return
    if key == "id" and any(row.get("id") is None for row in case.rows):
        return

    call_command("write", str(file), *words)

    rows = open_table(str(location)).read(columns=list(case.types))
    assert get_types(rows.schema) == case.types
    written = sorted(map(str, plain(rows.to_pylist())))
    assert written == sorted(map(str, case.rows))
