"""The files that a source names: one, all of a folder, or those that a pattern of names matches
(threat T29). Each is checked as a file that is named alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from workers.connections import BucketConnection
from workers.errors import InvalidInput
from workers.loading.content import InputFile
from workers.loading.options import format_named
from workers.locations import is_bucket_location
from workers.storage.opener import ensure_local_file, open_with
from workers.storage.roots import rows_place_in_bucket, rows_place_under_root
from workers.storage.source_places import check_in_no_table, resolve_source

FILES_MAX: Final = 1_000
_SIGNS: Final = "*?["
_ANY_NAME: Final = "rows"
"""Stands for each file of a folder while the folder is checked by its name alone."""
_AS_PARQUET: Final = {"arrow": "parquet"}
"""One reader takes both by their first bytes."""

Check = Callable[[str], str]
"""From a path to its resolved place. Raises an error for a file that may not be read."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a source."""

    path: str
    """As the source names it: its folder and its name."""
    place: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


def find_source_files(
    path: str, check: Check, *, kind: str = "", connection: BucketConnection | None = None
) -> list[SourceFile]:
    """Return the files that the path names, by name: a file, a folder (in a bucket with `/` at its
    end), or a pattern of names in one folder such as `/d/*.csv`. Names that begin with `.` or `_`
    are passed over, and in a folder names that show no format. `kind` is the format that the source
    asks for.

    Raises what `check` raises for the folder or a file of it, and InvalidInput where nothing
    matches, for too many files, and for files of another format.
    """
    folder_and_pattern = split_pattern(path)
    if folder_and_pattern is None:
        return [SourceFile(path, check(path))]
    folder, pattern = folder_and_pattern
    # Nothing of a folder is listed before its files may be read.
    probe = check(_join(path, folder, _ANY_NAME))
    place = probe.rpartition("/")[0]
    if is_bucket_location(place):
        check_in_no_table(probe, connection)
    names = sorted(name for name in _list_names(place, connection) if _is_chosen(name, pattern))
    if not names:
        what = "no source file matches" if pattern else "the source folder has no file of rows"
        raise InvalidInput(
            f"{what}: .csv, .tsv, .json, .jsonl, .parquet or .arrow, also as .gz or .zst",
            path=path[:200],
        )
    if len(names) > FILES_MAX:
        raise InvalidInput(
            f"one load takes at most {FILES_MAX} files; name fewer by a pattern such as 2026-01-*",
            path=path[:200],
            files=len(names),
        )
    _check_formats(path, names, kind)
    if is_bucket_location(place):
        # Objects of one folder differ by name alone.
        return [
            SourceFile(_join(path, folder, name), resolve_source(f"{place}/{name}"))
            for name in names
        ]
    paths = [_join(path, folder, name) for name in names]
    return [SourceFile(named, check(named)) for named in paths]


def find_named_places(path: str, check: Check, *, is_here: bool = True) -> list[str]:
    """Check the folder and each of its files that the path names now, by name alone in a bucket.
    Nothing has to match yet. Raises what `check` raises.
    """
    folder_and_pattern = split_pattern(path)
    if folder_and_pattern is None:
        return [check(path)]
    folder, pattern = folder_and_pattern
    probe = check(_join(path, folder, _ANY_NAME))
    if not is_here or not Path(probe).parent.is_dir():
        return [probe]
    names = sorted(_list_names(probe.rpartition("/")[0], None))
    chosen = [name for name in names if _is_chosen(name, pattern)][:FILES_MAX]
    return [probe, *(check(_join(path, folder, name)) for name in chosen)]


def rows_under_root(path: str, environment: Mapping[str, str], kind: str = "") -> list[SourceFile]:
    """The files below a source root that a worker may read. Raises InvalidInput, StorageFailed."""
    return find_source_files(
        path, lambda named: rows_place_under_root(named, environment), kind=kind
    )


def rows_in_bucket(
    connection: BucketConnection, path: str, environment: Mapping[str, str], kind: str = ""
) -> list[SourceFile]:
    """Return the files below the prefix of a connection, as `rows_under_root`."""
    return find_source_files(
        path,
        lambda named: rows_place_in_bucket(connection, named, environment),
        kind=kind,
        connection=connection,
    )


def files_here(
    files: Sequence[SourceFile],
    scratch: Path,
    *,
    bytes_max: int,
    connection: BucketConnection | None = None,
) -> list[InputFile]:
    """Return the files, with copies in `scratch` of those in a bucket, of `bytes_max` together.

    Raises what `ensure_local_file` raises, InvalidInput for a file that does not exist.
    """
    copies, left = [], bytes_max
    for number, file in enumerate(files):
        is_copied, own = is_bucket_location(file.place), scratch
        if is_copied and len(files) > 1:
            own = scratch / f"{number}"
            own.mkdir(exist_ok=True)
        here = ensure_local_file(file.place, own, bytes_max=left, connection=connection)
        if not here.is_file():
            raise InvalidInput("there is no such file", path=file.path[:200])
        left -= here.stat().st_size if is_copied else 0
        copies.append(InputFile(file.name, path=here))
    return copies


def split_pattern(path: str) -> tuple[str, str] | None:
    """Return the folder and the pattern of names, empty for a whole folder; None for one file."""
    folder, slash, name = path.rpartition("/")
    if slash and not name:
        return folder, ""
    if any(sign in name for sign in _SIGNS):
        return folder, name
    is_folder = path.startswith("/") and Path(path).is_dir()
    return (path, "") if is_folder else None


def _join(path: str, folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder or path.startswith("/") else name


def _list_names(place: str, connection: BucketConnection | None) -> list[str]:
    if is_bucket_location(place):
        return open_with(connection, place).list_names("")
    try:
        with os.scandir(place or "/") as entries:
            return [entry.name for entry in entries if entry.is_file()]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InvalidInput("source folder not found") from error


def _is_chosen(name: str, pattern: str) -> bool:
    if name.startswith((".", "_")):
        return False
    return fnmatchcase(name, pattern) if pattern else bool(format_named(name))


def _check_formats(path: str, names: Sequence[str], kind: str) -> None:
    by_format = {get_kind(name): name for name in reversed(names) if format_named(name)}
    expected = _AS_PARQUET.get(kind, kind)
    if len(by_format) > 1 or (expected and by_format and expected not in by_format):
        raise InvalidInput(
            "the files differ in format; name those of one format by a pattern such as *.csv",
            path=path[:200],
            files=list(by_format.values()),
            kind=expected or "any",
        )


def get_kind(name: str) -> str:
    """Return the kind of source that a file of this name is; empty where the name shows none."""
    kind = format_named(name)
    return _AS_PARQUET.get(kind, kind)
