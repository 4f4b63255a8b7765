"""Files of `tests/files` through each entry point: the rows of their JSON files, or the refusal."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import pytest

from tests.controlplane.loading.entry_points import (
    BY_FILE,
    IN_PROCESS,
    SPARK,
    EntryPoint,
    FileLoad,
    Node,
    Refused,
    list_files,
)
from tests.workers.loading.corpus import Case, cases, get_types, plain
from workers.lakehouse import open_table

CASES = cases()
EACH = pytest.mark.parametrize("case", CASES, ids=[case.path.name for case in CASES])


def put(case: Case, node: Node) -> FileLoad:
    """Copy the file below the source root."""
    file = node.drop / case.path.name
    shutil.copyfile(case.path, file)
    names = list(case.types) or (case.table.names if case.table is not None else ["id"])
    return FileLoad(file, case.options, case.table, case.key or names[0])


def check(case: Case, node: Node, name: str, enter: EntryPoint) -> None:
    load = put(case, node)
    if not case.refused and any(row.get(load.key) is None for row in case.rows):
        pytest.skip("a row without a key is loaded by no request")
    if name == "overwrite" and not case.refused and not case.rows:
        case = replace(case, refused="the file has no rows, so nothing would replace")
    prepare(load, node, name, case.key)
    if not case.refused:
        enter(load, node)
        rows = open_table(str(node.location)).read(columns=list(case.types))
        assert get_types(rows.schema) == case.types
        assert sorted(map(str, plain(rows.to_pylist()))) == sorted(map(str, case.rows))
        return

    before = list_files(node)
    with pytest.raises(Refused) as refusal:
        enter(load, node)

    assert re.search(case.refused, str(refusal.value), re.DOTALL)
    assert list_files(node) == before


def prepare(load: FileLoad, node: Node, name: str, key: str) -> None:
    """Create the table that the load needs, without columns where the file suggests none."""
    if load.table is not None:
        node.create(load)
    elif name in BY_FILE and key:
        node.create_empty(load)  # No file may suggest another key.
    elif name in BY_FILE:
        try:
            node.create_by_file(load)
        except Refused:
            node.create_empty(load)


@EACH
@pytest.mark.sampled(every=36)
@pytest.mark.parametrize("name", IN_PROCESS)
def test_entry_point_loads_the_rows_or_refuses_the_file(case: Case, node: Node, name: str) -> None:
    check(case, node, name, IN_PROCESS[name])


@EACH
@pytest.mark.spark
@pytest.mark.sampled(every=165)
@pytest.mark.parametrize("name", SPARK)
def test_entry_point_with_spark_loads_the_rows_or_refuses_the_file(
    case: Case, node: Node, name: str
) -> None:
    check(case, node, name, SPARK[name])
