"""File slices between the view, which finds them, and a plan, which keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from workers.clock import InstantTime
from workers.errors import NotFound, PlanOvertaken
from workers.files.names import parse_log_file, parse_name_instant
from workers.storage.base import Storage
from workers.table.file_group import FileSlice
from workers.table.view import VisibleFiles
from workers.timeline.service_plans import PlannedSlice


def to_planned_slice(slice_: FileSlice, metrics: Mapping[str, float]) -> PlannedSlice:
    """Return the slice as a plan stores it."""
    first = slice_.base_file or slice_.log_files[0]
    return PlannedSlice(
        partition=slice_.partition,
        file_id=slice_.file_id,
        base_instant=slice_.base_instant or _instant(first),
        base_file=slice_.base_file,
        log_files=slice_.log_files,
        metrics=metrics,
    )


def order_visible_logs(visible: VisibleFiles, old: PlannedSlice) -> PlannedSlice:
    """Return `old` with its logs in the order in which they became visible, for a plan of any
    engine.

    Raises PlanOvertaken when a file's commit was rolled back, before or after the plan was made
    (bug B8).
    """
    if old.base_file is not None:
        _find_completion(visible, old.base_file)
    logs = sorted(old.log_files, key=lambda path: _log_order(visible, path))
    return replace(old, log_files=tuple(logs))


def _log_order(visible: VisibleFiles, path: str) -> tuple[InstantTime, int, str]:
    log = parse_log_file(path.rpartition("/")[2])
    assert log is not None, path
    return _find_completion(visible, path), log.version, log.write_token


def _find_completion(visible: VisibleFiles, path: str) -> InstantTime:
    completed_at = visible.find_completion(_instant(path))
    if completed_at is None:
        raise PlanOvertaken(
            "a commit that the plan was made from was taken back", instant=_instant(path), path=path
        )
    return completed_at


def sum_file_sizes(storage: Storage, paths: Iterable[str]) -> int:
    """Return the bytes of all these files together. Raises NotFound for the first that is
    missing.
    """
    size = 0
    for path in paths:
        file = storage.info(path)
        if file is None:
            raise NotFound("no such file", path=path)
        size += file.size
    return size


def _instant(path: str) -> InstantTime:
    instant = parse_name_instant(path.rpartition("/")[2])
    assert instant is not None, path
    return instant
