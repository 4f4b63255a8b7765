"""Reading the archived timeline: the LSM history under `.hoodie/timeline/history/` (format page
2.4).

`manifest_<N>` lists the live files, `<first>_<last>_<level>.parquet`, each with one row per
instant. The highest manifest that can be read counts: it is published after its files and before
`_version_`, and every later one holds at least the same instants. Layout 1 (table version 6) keeps
its archive in another form: `archive_v1`.
"""

from __future__ import annotations

import io
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter, lt

import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime
from workers.errors import MalformedTable, NotFound
from workers.files.base_file import UNREADABLE, read_parquet
from workers.json_text import read_json
from workers.storage.base import FileInfo, Storage
from workers.table_layout import HISTORY
from workers.timeline.instant import Action, CompletedInstant, State
from workers.timeline.layout import TimelineLayout

VERSION_PATH = f"{HISTORY.path}/_version_"
_MANIFEST = re.compile(r"manifest_([0-9]{1,18})")
_FILE = re.compile(r"(\d{14}|\d{17})_(\d{14}|\d{17})_(\d)\.parquet")
_TIMES = ["instantTime", "completionTime", "action"]
_CONTENT = ["metadata", "plan"]
_LOOKS_MAX = 3
_REMEMBERED_MAX = 500_000
"""Instants of one table, of some 250 bytes each; of more none is kept in memory."""
_REQUESTED_AT = attrgetter("requested_at")
_ACTIONS = {action.value: action for action in Action}


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """An instant of the history, with as much content as was asked for."""

    instant: CompletedInstant
    metadata: bytes | None = None
    """What its completed file held; None when only times were asked for."""
    plan: bytes | None = None
    """What the requested file of a planned action held."""


@dataclass(frozen=True, slots=True, order=True)
class HistoryFile:
    """A Parquet file of the history (format page 2.4): between which request times its instants
    lie.
    """

    first: InstantTime
    last: InstantTime
    level: int
    size: int

    @property
    def name(self) -> str:
        """Its name without the directory."""
        return f"{self.first}_{self.last}_{self.level}.parquet"

    @property
    def path(self) -> str:
        """Relative to the table."""
        return HISTORY.file(self.name)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which history files count: one version, whole."""

    number: int = 0
    """0 when nothing was archived yet."""
    files: tuple[HistoryFile, ...] = ()

    @property
    def last(self) -> InstantTime | None:
        """No archived instant was requested later."""
        return max((file.last for file in self.files), default=None)

    def encode(self) -> bytes:
        """JSON, as Hudi's own reader of the history takes it."""
        files = [{"fileName": file.name, "fileLen": file.size} for file in self.files]
        return json.dumps({"files": files}, separators=(",", ":")).encode()


@dataclass(slots=True)
class ArchivedTimeline:
    """One reader's view of the history: files are opened when they are first asked for."""

    storage: Storage
    layout: TimelineLayout = field(default_factory=TimelineLayout)
    _history: _History | None = None
    _times: dict[str, tuple[CompletedInstant, ...]] = field(default_factory=dict)

    def completed_at(self, requested_at: InstantTime) -> InstantTime | None:
        """When the archived write became visible; None when no such write is archived.

        Raises MalformedTable.
        """
        if self.layout.version == 1:
            return None
        for _ in range(_LOOKS_MAX):
            history = self._history = self._history or _listed(self.storage)
            try:
                return self._look(history, requested_at)
            except NotFound:  # Merged away since the manifest was read.
                self._history = None
        raise MalformedTable("the history's manifest names files that are gone", path=HISTORY.path)

    def span(self) -> tuple[InstantTime, InstantTime] | None:
        """Between which request times it holds instants; None when there is no history.

        It is made from the oldest on: nothing that lies between was archived and is missing.
        """
        history = self._history = self._history or _listed(self.storage)
        files = history.manifest.files
        if not files:
            return None
        return min(file.first for file in files), max(file.last for file in files)

    def _look(self, history: _History, requested_at: InstantTime) -> InstantTime | None:
        for file in history.manifest.files:
            if not file.first <= requested_at <= file.last:
                continue
            if file.name not in self._times:
                self._times[file.name] = _times(self.storage, file, history)
            instants = self._times[file.name]
            start = bisect_left(instants, requested_at, key=_REQUESTED_AT)
            for instant in islice(instants, start, None):
                if instant.requested_at != requested_at:
                    break
                if instant.action.writes_data and instant.completed_at:
                    return instant.completed_at
        return None


def archived_times(
    storage: Storage,
    *,
    requested_from: InstantTime | None = None,
    completed_until: InstantTime | None = None,
) -> tuple[CompletedInstant, ...]:
    """Archived instants, ascending by requested time, each once; both bounds included.

    Files outside the bounds are not opened, and no file twice by one process. A write that was
    requested before a checkpoint may have completed after it: whoever goes by completion time
    filters on it and bounds only `completed_until`. Raises MalformedTable.
    """
    for _ in range(_LOOKS_MAX):
        history = _listed(storage)
        wanted = _within_bounds(history.manifest, requested_from, completed_until)
        try:
            instants = _joined_times(storage, history, wanted)
        except NotFound:  # Merged away since the manifest was read.
            continue
        if requested_from is not None:
            instants = instants[bisect_left(instants, requested_from, key=_REQUESTED_AT) :]
        if completed_until is not None:
            instants = tuple(one for one in instants if one.completed_at <= completed_until)
        return instants
    raise MalformedTable("the history's manifest names files that are gone", path=HISTORY.path)


def archived_instants(
    storage: Storage,
    *,
    requested_from: InstantTime | None = None,
    completed_until: InstantTime | None = None,
    with_content: bool = False,
) -> list[ArchivedInstant]:
    """As `archived_times`; with `with_content` also what their files held."""
    if not with_content:
        times = archived_times(
            storage, requested_from=requested_from, completed_until=completed_until
        )
        return [ArchivedInstant(one) for one in times]
    for _ in range(_LOOKS_MAX):
        wanted = _within_bounds(read_manifest(storage), requested_from, completed_until)
        try:
            read = [
                one
                for file in wanted
                for one in _read_file(storage, file, requested_from, completed_until)
            ]
        except NotFound:  # Merged away since the manifest was read.
            continue
        return _within(read, requested_from, completed_until)
    raise MalformedTable("the history's manifest names files that are gone", path=HISTORY.path)


def _within_bounds(
    manifest: Manifest, requested_from: InstantTime | None, completed_until: InstantTime | None
) -> list[HistoryFile]:
    return [
        file
        for file in manifest.files
        if (requested_from is None or file.last >= requested_from)
        and (completed_until is None or file.first < completed_until)
    ]


def read_manifest(storage: Storage) -> Manifest:
    """The newest manifest that can be read. Raises MalformedTable when there are some, all torn."""
    return _listed(storage).manifest


@dataclass(frozen=True, slots=True)
class _History:
    manifest: Manifest
    listed: Mapping[str, FileInfo]
    """By name, when the manifest was looked for."""


def _listed(storage: Storage) -> _History:
    files = {file.name: file for file in storage.list_files(HISTORY.path)}
    numbers = sorted(int(match[1]) for name in files if (match := _MANIFEST.fullmatch(name)))
    for number in reversed(numbers):
        if manifest := read_numbered(storage, number):
            return _History(manifest, files)
    if numbers and manifest_numbers(storage):
        raise MalformedTable("no manifest of the history can be read", path=HISTORY.path)
    return _History(Manifest(), files)


def read_numbered(storage: Storage, number: int) -> Manifest | None:
    """The manifest of this number; None when it was removed, or torn by a foreign writer."""
    try:
        return Manifest(number, _decoded(storage.read(manifest_path(number))))
    except (NotFound, MalformedTable):
        return None


def manifest_numbers(storage: Storage) -> list[int]:
    """The numbers of all manifests, in no order; empty when nothing was archived yet."""
    names = [file.name for file in storage.list_files(HISTORY.path)]
    return [int(match[1]) for name in names if (match := _MANIFEST.fullmatch(name))]


def manifest_path(number: int) -> str:
    """Relative to the table."""
    return f"{HISTORY.path}/manifest_{number}"


def read_rows(storage: Storage, file: HistoryFile, columns: list[str] | None = None) -> pa.Table:
    """The rows of a history file, of all columns or of these. Raises NotFound, MalformedTable."""
    content = storage.read(file.path)
    try:
        return read_parquet(io.BytesIO(content), columns)
    except UNREADABLE as error:
        raise MalformedTable("history file is not readable", path=file.path) from error


def _decoded(content: bytes) -> tuple[HistoryFile, ...]:
    try:
        listed = read_json(content)["files"]
        files = [_parsed(str(one["fileName"]), int(one["fileLen"])) for one in listed]
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedTable("manifest of the history is damaged") from error
    return tuple(sorted(files))


def _parsed(name: str, size: int) -> HistoryFile:
    match = _FILE.fullmatch(name)
    if match is None:
        raise MalformedTable("manifest names a file that is no history file", name=name)
    return HistoryFile(match[1], match[2], int(match[3]), size)


@dataclass(slots=True)
class _Seen:
    """What the process read of a table's history, by what the listing says of each file. None is
    ever written again under its name once a manifest has it, and another one made under it by
    chance would have another time.
    """

    times: dict[FileInfo, tuple[CompletedInstant, ...]] = field(default_factory=dict)
    joined: tuple[list[FileInfo], tuple[CompletedInstant, ...]] | None = None


def _joined_times(
    storage: Storage, history: _History, wanted: list[HistoryFile]
) -> tuple[CompletedInstant, ...]:
    memory = storage.remembered.of_kind(_Seen)
    infos = [info for file in wanted if (info := history.listed.get(file.name))]
    is_listed = len(infos) == len(wanted)
    if is_listed and memory.joined is not None and memory.joined[0] == infos:
        return memory.joined[1]
    instants = _ascending([_times(storage, file, history) for file in wanted])
    if is_listed and len(wanted) == len(history.manifest.files):
        times = dict(memory.times)
        memory.times = {info: times[info] for info in infos if info in times}
        memory.joined = (infos, instants) if len(instants) <= _REMEMBERED_MAX else None
    return instants


def _times(storage: Storage, file: HistoryFile, history: _History) -> tuple[CompletedInstant, ...]:
    """Of one file, ascending by requested time. Raises NotFound, MalformedTable."""
    info = history.listed.get(file.name)
    memory = storage.remembered.of_kind(_Seen)
    known = memory.times.get(info) if info else None
    if known is None:
        known = _read_times(storage, file)
        if info and sum(map(len, [*memory.times.values(), known])) <= _REMEMBERED_MAX:
            memory.times = {**memory.times, info: known}
    return known


def _read_times(storage: Storage, file: HistoryFile) -> tuple[CompletedInstant, ...]:
    with storage.open_data(file.path) as stream:
        try:
            rows = read_parquet(stream, _TIMES)
        except UNREADABLE as error:
            raise MalformedTable("history file is not readable", path=file.path) from error
    columns = (rows.column(name).to_pylist() for name in _TIMES)
    instants = [
        CompletedInstant(str(requested_at), action, State.COMPLETED, str(completed_at or ""))
        for requested_at, completed_at, text in zip(*columns, strict=True)
        if (action := _ACTIONS.get(text))  # One that we do not know says nothing to us.
    ]
    return tuple(sorted(instants, key=_REQUESTED_AT))


def _ascending(parts: Iterable[tuple[CompletedInstant, ...]]) -> tuple[CompletedInstant, ...]:
    """Each once; parts that follow each other need no look at each instant."""
    instants = sorted((one for part in parts for one in part), key=_REQUESTED_AT)
    times = [one.requested_at for one in instants]
    if all(map(lt, times, times[1:])):
        return tuple(instants)
    once = {(one.requested_at, one.action): one for one in instants}
    return tuple(once[key] for key in sorted(once))


def _read_file(
    storage: Storage,
    file: HistoryFile,
    requested_from: InstantTime | None,
    completed_until: InstantTime | None,
) -> list[ArchivedInstant]:
    rows = read_rows(storage, file, [*_TIMES, *_CONTENT])
    if requested_from is not None:
        rows = rows.filter(pc.greater_equal(rows.column("instantTime"), pa.scalar(requested_from)))
    if completed_until is not None:
        ended = pc.less_equal(rows.column("completionTime"), pa.scalar(completed_until))
        rows = rows.filter(pc.or_kleene(pc.is_null(ended), ended))
    archived = map(_archived, rows.to_pylist())
    return [instant for instant in archived if instant is not None]


def _archived(row: dict[str, object]) -> ArchivedInstant | None:
    try:
        action = Action(str(row["action"]))
    except ValueError:  # An action that we do not know says nothing to us.
        return None
    metadata, plan = row.get("metadata"), row.get("plan")
    return ArchivedInstant(
        CompletedInstant(
            str(row["instantTime"]), action, State.COMPLETED, str(row["completionTime"] or "")
        ),
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
        and (completed_until is None or once[key].instant.completed_at <= completed_until)
    ]
