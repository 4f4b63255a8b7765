"""hudi-rs as the judge of what we wrote: it must read the same rows.

Each distinct end state is judged once: many tests end in the same one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiReadOptions, HudiTableBuilder

from tests.support.invariants import assert_keys_are_unique
from workers.files.meta_columns import META_COLUMNS, PARTITION_PATH, RECORD_KEY
from workers.lakehouse import open_table
from workers.read.snapshot import read_snapshot
from workers.storage.local import LocalStorage
from workers.table.table import Table
from workers.table.view import FileSystemView

# What changes without the table changing, and what no reader looks at.
UNREAD = (".hoodie/.locks/", ".hoodie/.heartbeat/", ".hoodie/.temp/", ".hoodie/.sluice/")
_judged: set[str] = set()


def referee_table(
    location: Path | str,
    options: Mapping[str, str] | None = None,
    read_options: HudiReadOptions | None = None,
) -> pa.Table:
    """What is asked for, by default the snapshot, as hudi-rs reads it, meta columns included; an
    empty table has no columns.

    hudi-rs raises a Rust panic as a BaseException: let it fail the test.
    """
    reader = HudiTableBuilder.from_base_uri(str(location)).with_options(options or {}).build()
    batches = [pa.record_batch(batch) for batch in reader.read(read_options)]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def referee_rows(location: Path | str, columns: list[str]) -> list[dict[str, Any]]:
    table = referee_table(location)
    return table.select(columns).to_pylist() if table.num_columns else []


def assert_referee_agrees(location: Path | str, *, is_ours: bool = True) -> None:
    """Both readers see the same rows under the same keys and partitions, and every column; in a
    table of ours each key once, which other writers do not promise.

    Raises AssertionError naming the rows that only one of them sees.
    """
    state = _fingerprint(location)
    if state in _judged:
        return
    table = open_table(location).table
    if table.config.groups is not None:
        _assert_groups_are_read_right(table)
        _judged.add(state)
        return
    ours = read_snapshot(table, with_meta_columns=True)
    if is_ours:
        assert_keys_are_unique(ours)
    _assert_same_rows(location, ours)
    _judged.add(state)


def _assert_groups_are_read_right(table: Table) -> None:
    """hudi-rs refuses to merge logs by a rule that it does not know, rather than guess; the base
    files it reads as we do, and they hold whatever the table's join hides.
    """
    location = table.storage.location
    assert table.config.groups is not None, location
    shown = replace(table.config, groups=replace(table.config.groups, required=()))
    everything = replace(table, config=shown)
    if any(one.log_files for one in FileSystemView.load(table).slices):
        with pytest.raises(Exception, match="needs its own merger"):
            referee_table(location)
    optimized = read_snapshot(everything, with_meta_columns=True, is_read_optimized=True)
    whole = read_snapshot(everything, with_meta_columns=True)
    assert_keys_are_unique(whole, in_table=table.config.keeps_keys_single)
    _assert_same_rows(location, optimized, {"hoodie.read.use.read_optimized.mode": "true"})


def _assert_same_rows(
    location: Path | str, ours: pa.Table, options: Mapping[str, str] | None = None
) -> None:
    names = [name for name in ours.column_names if name not in META_COLUMNS]
    columns = [RECORD_KEY, PARTITION_PATH, *names]
    try:
        theirs = referee_table(location, options)
    except BaseException as error:  # A panic of Rust code is no Exception.
        raise AssertionError(f"hudi-rs cannot read {location}: {error!r}") from error
    if theirs.num_columns == 0:
        theirs = ours.schema.empty_table()
    missing = [name for name in columns if name not in theirs.column_names]
    assert not missing, f"hudi-rs does not see columns {missing} of {location}"
    mine, judged = _counted(ours.select(columns)), _counted(theirs.select(columns))
    assert mine == judged, (
        f"hudi-rs reads {location} differently; "
        f"only Sluice sees {sorted((mine - judged).elements())}; "
        f"only hudi-rs sees {sorted((judged - mine).elements())}"
    )


def _counted(rows: pa.Table) -> Counter[str]:
    return Counter(repr(row) for row in rows.to_pylist())


def _fingerprint(location: Path | str) -> str:
    storage, digest = LocalStorage(location), hashlib.sha256()
    for file in storage.list_tree(""):
        if not file.path.startswith(UNREAD):
            content = hashlib.sha256(storage.read(file.path)).hexdigest()
            digest.update(f"{file.path}\n{content}\n".encode())
    return digest.hexdigest()
