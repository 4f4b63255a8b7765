"""Files of the archived timeline: those that count, and those that are lost.

A manifest names the files of the history. An operator, a disk or another program may remove some of
them, or rewrite the manifest without them: the manifest alone does not show it. So the archiver
notes the names of all files next to the history, in `.hoodie/.sluice/history_files`, each with the
newest completion time in it. A file that was noted and does not exist is lost, and stays noted as
lost; a file that is put back counts again, even if no manifest names it.

Where the newest manifest is damaged, its files are found by listing the directory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from workers.clock import InstantTime
from workers.errors import HistoryLost, LeaseLost, MalformedTable, NotFound
from workers.json_text import read_json
from workers.storage.base import FileInfo, Storage
from workers.table_layout import HISTORY, HISTORY_FILES
from workers.timeline.decisions import load_archive_border

_MANIFEST: Final = re.compile(r"manifest_([0-9]{1,18})")
_FILE: Final = re.compile(r"(\d{14}|\d{17})_(\d{14}|\d{17})_(\d)\.parquet")
_LOOKS_MAX: Final = 3
_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True, order=True)
class HistoryFile:
    """A Parquet file of the history (format page 2.4), with the first and last request time
    in it.
    """

    first: InstantTime
    last: InstantTime
    level: int
    size: int

    @property
    def name(self) -> str:
        """The name without the directory."""
        return f"{self.first}_{self.last}_{self.level}.parquet"

    @property
    def path(self) -> str:
        """The path relative to the table."""
        return HISTORY.file(self.name)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A version of the list of history files."""

    number: int = 0
    """0 when nothing was archived yet."""
    files: tuple[HistoryFile, ...] = ()

    def encode(self) -> bytes:
        """Encode as JSON, for Hudi's own reader of the history."""
        files = [{"fileName": file.name, "fileLen": file.size} for file in self.files]
        return json.dumps({"files": files}, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class NotedFile:
    """The note about a file."""

    size: int
    newest: InstantTime | None = None
    """No instant in it completed later; None where it was lost before that was noted."""


@dataclass(frozen=True, slots=True)
class NotedFiles:
    """The note about the history's files, by name."""

    files: Mapping[str, NotedFile] = field(default_factory=dict)
    lost: Mapping[str, NotedFile] = field(default_factory=dict)
    """Found to be lost before."""
    tag: str | None = None
    """The tag that a replacement must match; None until a note exists."""


@dataclass(frozen=True, slots=True)
class LostFile:
    """A file of the history that is missing or cannot be read."""

    file: HistoryFile
    newest: InstantTime | None = None
    """No instant in it completed later; None where that is not noted."""

    def can_contain(self, bounds: Bounds) -> bool:
        """Check whether an instant within the bounds may have been in it."""
        is_too_old = (
            bounds.completed_after is not None
            and self.newest is not None
            and self.newest <= bounds.completed_after
        )
        return bounds.includes(self.file) and not is_too_old


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a reader for archived instants; all but `completed_after` included."""

    requested_from: InstantTime | None = None
    requested_until: InstantTime | None = None
    completed_after: InstantTime | None = None
    completed_until: InstantTime | None = None

    def includes(self, file: HistoryFile) -> bool:
        """Check by its name whether the file may have such an instant."""
        return (
            (self.requested_from is None or file.last >= self.requested_from)
            and (self.requested_until is None or file.first <= self.requested_until)
            and (self.completed_until is None or file.first < self.completed_until)
        )


@dataclass(frozen=True, slots=True)
class HistoryFiles:
    """The files of the history as one listing showed them."""

    manifest: Manifest = Manifest()
    files: tuple[HistoryFile, ...] = ()
    """Those to read, ascending."""
    lost: tuple[LostFile, ...] = ()
    listed: Mapping[str, FileInfo] = field(default_factory=dict)
    noted: NotedFiles = NotedFiles()

    @property
    def last(self) -> InstantTime | None:
        """The last request time of all archived instants."""
        every = (
            *self.files,
            *(lost_file.file for lost_file in self.lost if lost_file.file.level != UNNAMED),
        )
        return max((file.last for file in every), default=None)

    def within(self, bounds: Bounds) -> list[HistoryFile]:
        """Return the files that may have instants within the bounds."""
        return [file for file in self.files if bounds.includes(file)]

    def check_whole(self, bounds: Bounds) -> None:
        """Check that no file that such instants may be in is lost. Raises HistoryLost."""
        if missing := [lost_file.file for lost_file in self.lost if lost_file.can_contain(bounds)]:
            raise history_lost(missing)

    def without(self, unreadable: HistoryFile) -> HistoryFiles:
        """Return the same with this file among the lost ones."""
        noted = self.noted.files.get(unreadable.name)
        lost = LostFile(unreadable, noted.newest if noted else None)
        files = tuple(file for file in self.files if file != unreadable)
        return replace(self, files=files, lost=(*self.lost, lost))


UNNAMED: Final = -1
"""The level of a file that stands for all whose names are lost as well."""


def history_lost(missing: Iterable[HistoryFile]) -> HistoryLost:
    """Build the error that names the missing files and the solution."""
    files = sorted(missing)
    names = [file.name for file in files if file.level != UNNAMED]
    hidden = len(names) - _NAMED_MAX
    named = ", ".join(names[:_NAMED_MAX]) + (f" and {hidden} more" if hidden > 0 else "")
    return HistoryLost(
        "a part of the archived timeline is lost, and this needs it; put the files back from a"
        " copy, or ask only for what came later",
        directory=HISTORY.path,
        missing=named or "every file",
        requested_from=files[0].first,
        requested_until=max(file.last for file in files),
    )


@dataclass(slots=True)
class _Seen:
    """The note as the process read it, with the listing of the history at that time. A file that is
    lost or put back changes the listing.
    """

    noted: tuple[Sequence[FileInfo], NotedFiles] | None = None


def list_history(storage: Storage, *, is_fresh: bool = False) -> HistoryFiles:
    """Return the history's current files, and the lost ones by name. With `is_fresh` the note about
    them is read even if the listing is unchanged. Raises MalformedTable when the note is damaged.
    """
    history = _look(storage, is_fresh=is_fresh)
    for _ in range(_LOOKS_MAX):
        if not history.lost or max(manifest_numbers(storage), default=0) <= _newest(history.listed):
            break
        # Another archiver published since, and may have removed what it merged.
        history = _look(storage, is_fresh=is_fresh)
    if history.lost or history.files:
        return history
    border = load_archive_border(storage)
    if not border and not history.listed:
        return history
    everything = HistoryFile("0" * 17, border or "9" * 17, UNNAMED, 0)
    return replace(history, lost=(LostFile(everything),))


def _look(storage: Storage, *, is_fresh: bool) -> HistoryFiles:
    infos = storage.list_files(HISTORY.path)
    noted = _load_note(storage, infos, is_fresh=is_fresh)
    listed = {file.name: file for file in infos}
    manifest, is_torn = _newest_manifest(storage, listed)
    return _compare_listing(manifest, is_torn, listed, noted)


def _load_note(storage: Storage, infos: Sequence[FileInfo], *, is_fresh: bool) -> NotedFiles:
    memory = storage.cache.of_kind(_Seen)
    if memory.noted is not None and memory.noted[0] == infos and infos and not is_fresh:
        return memory.noted[1]
    noted = read_noted(storage)
    memory.noted = (infos, noted)
    return noted


def _newest(listed: Iterable[str]) -> int:
    return max(_numbers(listed), default=0)


def _newest_manifest(storage: Storage, listed: Mapping[str, FileInfo]) -> tuple[Manifest, bool]:
    """Return the newest readable manifest, and whether a newer one is damaged or all are missing.
    The first archive puts its file before there is a manifest, and may die in between.
    """
    numbers = _numbers(listed)
    if not numbers:
        return Manifest(), bool(listed) and bool(load_archive_border(storage))
    for number in sorted(numbers, reverse=True):
        if manifest := read_numbered(storage, number):
            return manifest, number < max(numbers)
    return Manifest(), True


def _compare_listing(
    manifest: Manifest, is_torn: bool, listed: Mapping[str, FileInfo], noted: NotedFiles
) -> HistoryFiles:
    named = {file.name: file for file in manifest.files}
    if is_torn:
        named |= {file.name: file for file in _parse_files(listed) if file.name not in named}
    present = {name: file for name, file in named.items() if _is_whole(file, listed)}
    lost = []
    every_noted = {**noted.files, **noted.lost}
    for name in sorted({*named, *every_noted} - present.keys()):
        file_note = every_noted.get(name)
        file = named.get(name) or parse_history_file(name, file_note.size if file_note else 0)
        if name not in noted.lost and any(_is_merged(file, other) for other in present.values()):
            continue
        if _is_whole(file, listed):
            present[name] = file
        else:
            lost.append(LostFile(file, file_note.newest if file_note else None))
    return HistoryFiles(manifest, tuple(sorted(present.values())), tuple(lost), listed, noted)


def _is_whole(file: HistoryFile, listed: Mapping[str, FileInfo]) -> bool:
    """Check whether the file exists with its size; other engines' manifests may not give it."""
    return file.name in listed and file.size in (listed[file.name].size, 0)


def _is_merged(file: HistoryFile, other: HistoryFile) -> bool:
    """Check whether `other` is a merge of files of its range. Merges keep what was lost before
    noted as lost.
    """
    return other.level > file.level and other.first <= file.first and file.last <= other.last


def _parse_files(listed: Mapping[str, FileInfo]) -> list[HistoryFile]:
    return [
        parse_history_file(name, info.size)
        for name, info in listed.items()
        if _FILE.fullmatch(name)
    ]


def parse_history_file(name: str, size: int) -> HistoryFile:
    """Parse the name. Raises MalformedTable."""
    match = _FILE.fullmatch(name)
    if match is None:
        raise MalformedTable("manifest names a file that is not a history file", name=name)
    return HistoryFile(match[1], match[2], int(match[3]), size)


def read_numbered(storage: Storage, number: int) -> Manifest | None:
    """Return the manifest of this number; None when it was removed, or torn by a foreign writer."""
    try:
        return Manifest(number, _decode_files(storage.read(manifest_path(number))))
    except (NotFound, MalformedTable):
        return None


def manifest_numbers(storage: Storage) -> list[int]:
    """List the numbers of all manifests, in no order; empty when nothing was archived yet."""
    return _numbers(file.name for file in storage.list_files(HISTORY.path))


def _numbers(names: Iterable[str]) -> list[int]:
    return [int(match[1]) for name in names if (match := _MANIFEST.fullmatch(name))]


def manifest_path(number: int) -> str:
    """Return the path relative to the table."""
    return f"{HISTORY.path}/manifest_{number}"


def _decode_files(content: bytes) -> tuple[HistoryFile, ...]:
    try:
        listed = read_json(content)["files"]
        files = [
            parse_history_file(str(entry["fileName"]), int(entry["fileLen"])) for entry in listed
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedTable("manifest of the history is damaged") from error
    return tuple(sorted(files))


def read_noted(storage: Storage) -> NotedFiles:
    """Return the archiver's note, or an empty one. Raises MalformedTable."""
    try:
        tagged = storage.read_tagged(HISTORY_FILES.path)
    except NotFound:
        return NotedFiles()
    try:
        body = read_json(tagged.content)
        files = {str(name): _decode_note(note) for name, note in body["files"].items()}
        lost = {str(name): _decode_note(note) for name, note in body["lost"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedTable(
            "the note about the archived timeline's files is damaged; delete it, the next archive"
            " writes it again",
            path=HISTORY_FILES.path,
        ) from error
    return NotedFiles(files, lost, tagged.tag)


def _decode_note(note: Mapping[str, Any]) -> NotedFile:
    newest = note["newest"]
    return NotedFile(int(note["size"]), None if newest is None else str(newest))


def note_files(storage: Storage, former: NotedFiles, now: NotedFiles) -> NotedFiles:
    """Replace the note, under the table lock. Raises LeaseLost when another archiver did first."""
    if (former.files, former.lost) == (now.files, now.lost):
        return former
    body = {
        key: {name: asdict(note) for name, note in notes.items()}
        for key, notes in (("files", now.files), ("lost", now.lost))
    }
    content = json.dumps(body, separators=(",", ":"), sort_keys=True).encode()
    if former.tag is None:
        is_written = storage.put_if_absent(HISTORY_FILES.path, content)
    else:
        is_written = storage.replace_if_match(HISTORY_FILES.path, content, former.tag) is not None
    if not is_written:
        raise LeaseLost("another archiver noted the history's files", path=HISTORY_FILES.path)
    return read_noted(storage)
