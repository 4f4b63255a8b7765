"""Reading the archived timeline: the LSM history under `.hoodie/timeline/history/` (format page
2.4).

`manifest_<N>` lists the live files, `<first>_<last>_<level>.parquet`, each with one row per
instant. The highest manifest that can be read counts: it is published after its files and before
`_version_`, and every later one holds at least the same instants. Layout 1 (table version 6) keeps
its archive in another form, which is not read: `check_readable` says so.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from workers.clock import InstantTime
from workers.errors import MalformedTable, NotFound, UnsupportedTable
from workers.files.base_file import UNREADABLE, read_parquet
from workers.storage.base import Storage
from workers.timeline.instant import Action, Instant, State
from workers.timeline.layout import TimelineLayout

DIRECTORY = ".hoodie/timeline/history"
VERSION_PATH = f"{DIRECTORY}/_version_"
_LAYOUT_1_DIRECTORY = ".hoodie/archived"
_MANIFEST = re.compile(r"manifest_([0-9]{1,18})")
_FILE = re.compile(r"(\d{14}|\d{17})_(\d{14}|\d{17})_(\d)\.parquet")
_TIMES = ["instantTime", "completionTime", "action"]
_CONTENT = ["metadata", "plan"]
_LOOKS_MAX = 3


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    instant: Instant
    """Completed."""
    metadata: bytes | None = None
    """What its completed file held; None when only times were asked for."""
    plan: bytes | None = None
    """What the requested file of a planned action held."""


@dataclass(frozen=True, slots=True, order=True)
class HistoryFile:
    first: InstantTime
    last: InstantTime
    level: int
    size: int

    @property
    def name(self) -> str:
        return f"{self.first}_{self.last}_{self.level}.parquet"

    @property
    def path(self) -> str:
        return f"{DIRECTORY}/{self.name}"


@dataclass(frozen=True, slots=True)
class Manifest:
    number: int = 0
    """0 when nothing was archived yet."""
    files: tuple[HistoryFile, ...] = ()

    @property
    def last(self) -> InstantTime | None:
        """No archived instant was requested later."""
        return max((file.last for file in self.files), default=None)

    def encode(self) -> bytes:
        files = [{"fileName": file.name, "fileLen": file.size} for file in self.files]
        return json.dumps({"files": files}, separators=(",", ":")).encode()


@dataclass(slots=True)
class ArchivedTimeline:
    """One reader's view of the history: files are opened when they are first asked for."""

    storage: Storage
    layout: TimelineLayout = field(default_factory=TimelineLayout)
    _manifest: Manifest | None = None
    _times: dict[str, dict[InstantTime, InstantTime]] = field(default_factory=dict)

    def completed_at(self, requested_at: InstantTime) -> InstantTime | None:
        """When the archived write became visible; None when no such write is archived.

        Raises MalformedTable.
        """
        if self.layout.version == 1:
            return None
        for _ in range(_LOOKS_MAX):
            manifest = self._manifest = self._manifest or read_manifest(self.storage)
            try:
                return self._look(manifest, requested_at)
            except NotFound:  # Merged away since the manifest was read.
                self._manifest = None
        raise MalformedTable("the history's manifest names files that are gone", path=DIRECTORY)

    def _look(self, manifest: Manifest, requested_at: InstantTime) -> InstantTime | None:
        for file in manifest.files:
            if not file.first <= requested_at <= file.last:
                continue
            if file.name not in self._times:
                self._times[file.name] = {
                    one.instant.requested_at: one.instant.completed_at or ""
                    for one in _read_file(self.storage, file, with_content=False)
                    if one.instant.action.writes_data
                }
            if found := self._times[file.name].get(requested_at):
                return found
        return None


def archived_instants(
    storage: Storage,
    *,
    requested_from: InstantTime | None = None,
    completed_until: InstantTime | None = None,
    with_content: bool = False,
) -> list[ArchivedInstant]:
    """Archived instants, ascending by requested time, each once; both bounds included.

    Files outside the bounds are not opened, and without `with_content` only the times are read. A
    write that was requested before a checkpoint may have completed after it: whoever goes by
    completion time filters on it and bounds only `completed_until`. Raises MalformedTable.
    """
    for _ in range(_LOOKS_MAX):
        wanted = [
            file
            for file in read_manifest(storage).files
            if (requested_from is None or file.last >= requested_from)
            and (completed_until is None or file.first < completed_until)
        ]
        try:
            read = [one for file in wanted for one in _read_file(storage, file, with_content)]
        except NotFound:  # Merged away since the manifest was read.
            continue
        return _within(read, requested_from, completed_until)
    raise MalformedTable("the history's manifest names files that are gone", path=DIRECTORY)


def check_readable(storage: Storage, layout: TimelineLayout) -> None:
    """Raises UnsupportedTable when there is an archive that Sluice does not read."""
    if layout.version == 1 and storage.list_files(_LAYOUT_1_DIRECTORY):
        raise UnsupportedTable(
            "the archived timeline of version 6 is not read; only the active one is",
            path=_LAYOUT_1_DIRECTORY,
        )


def read_manifest(storage: Storage) -> Manifest:
    """The newest manifest that can be read. Raises MalformedTable when there are some, all torn."""
    numbers = sorted(manifest_numbers(storage), reverse=True)
    for number in numbers:
        if found := read_numbered(storage, number):
            return found
    if numbers and manifest_numbers(storage):
        raise MalformedTable("no manifest of the history can be read", path=DIRECTORY)
    return Manifest()


def read_numbered(storage: Storage, number: int) -> Manifest | None:
    """None when it was removed, or torn by a foreign writer."""
    try:
        return Manifest(number, _decoded(storage.read(manifest_path(number))))
    except (NotFound, MalformedTable):
        return None


def manifest_numbers(storage: Storage) -> list[int]:
    names = [file.name for file in storage.list_files(DIRECTORY)]
    return [int(found[1]) for name in names if (found := _MANIFEST.fullmatch(name))]


def manifest_path(number: int) -> str:
    return f"{DIRECTORY}/manifest_{number}"


def read_rows(storage: Storage, file: HistoryFile, columns: list[str] | None = None) -> pa.Table:
    """Raises NotFound, MalformedTable."""
    content = storage.read(file.path)
    try:
        return read_parquet(io.BytesIO(content), columns)
    except UNREADABLE as error:
        raise MalformedTable("history file is not readable", path=file.path) from error


def _decoded(content: bytes) -> tuple[HistoryFile, ...]:
    try:
        listed = json.loads(content)["files"]
        files = [_parsed(str(one["fileName"]), int(one["fileLen"])) for one in listed]
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedTable("manifest of the history is damaged") from error
    return tuple(sorted(files))


def _parsed(name: str, size: int) -> HistoryFile:
    found = _FILE.fullmatch(name)
    if found is None:
        raise MalformedTable("manifest names a file that is no history file", name=name)
    return HistoryFile(found[1], found[2], int(found[3]), size)


def _read_file(storage: Storage, file: HistoryFile, with_content: bool) -> list[ArchivedInstant]:
    columns = [*_TIMES, *(_CONTENT if with_content else [])]
    rows = read_rows(storage, file, columns).to_pylist()
    return [one for row in rows if (one := _archived(row)) is not None]


def _archived(row: dict[str, object]) -> ArchivedInstant | None:
    try:
        action = Action(str(row["action"]))
    except ValueError:  # An action that we do not know says nothing to us.
        return None
    metadata, plan = row.get("metadata"), row.get("plan")
    return ArchivedInstant(
        Instant(str(row["instantTime"]), action, State.COMPLETED, str(row["completionTime"] or "")),
        metadata if isinstance(metadata, bytes) else None,
        plan if isinstance(plan, bytes) else None,
    )


def _within(
    read: Iterable[ArchivedInstant],
    requested_from: InstantTime | None,
    completed_until: InstantTime | None,
) -> list[ArchivedInstant]:
    once = {(one.instant.requested_at, one.instant.action): one for one in read}
    return [
        once[key]
        for key in sorted(once)
        if (requested_from is None or key[0] >= requested_from)
        and (completed_until is None or (once[key].instant.completed_at or "") <= completed_until)
    ]
