"""The file groups of a table as storage lists them: every slice, with its sizes.

Files count from the moment their instant is completed, as for every reader (bug I1); a log belongs
to the newest base file that was requested before the log became visible.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.files.partition import files_by_partition
from workers.storage.base import FileInfo
from workers.table.table import Table
from workers.table.view import GroupFiles, GroupKey, VisibleFiles
from workers.timeline.timeline import Timeline

FILE_GROUPS_MAX = 20_000
"""Default of `SLUICE_MIRROR_FILE_GROUPS_MAX`: more file groups are summed by partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFacts:
    base: FileInfo | None
    base_instant: InstantTime | None
    logs: tuple[FileInfo, ...] = ()
    instants: tuple[InstantTime, ...] = ()
    """Requested times of all that wrote into it, oldest first."""

    @property
    def log_bytes(self) -> int:
        return sum(log.size for log in self.logs)

    @property
    def bytes(self) -> int:
        return (self.base.size if self.base else 0) + self.log_bytes

    @property
    def file_count(self) -> int:
        return len(self.logs) + (self.base is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroupFacts:
    partition: str
    file_id: str
    slices: tuple[SliceFacts, ...]
    """Newest first; never empty."""
    is_replaced: bool


@dataclass(frozen=True, slots=True)
class FileListing:
    groups: tuple[FileGroupFacts, ...]
    """The file groups with a row of their own, by partition and file id."""
    left_out: tuple[FileGroupFacts, ...] = ()
    """The others, in the same order."""
    unproved: tuple[InstantTime, ...] = ()
    """Instants whose files count although nothing tells that they completed."""
    unmarked: tuple[str, ...] = ()
    """Partitions without partition metadata, which other engines do not read."""


def list_file_groups(
    table: Table, timeline: Timeline, groups_max: int = FILE_GROUPS_MAX
) -> FileListing:
    """List every partition. The `groups_max` file groups with the newest writes get a row of their
    own, those of readers before replaced ones. Raises MalformedTable when a file's instant is
    unknown.
    """
    visible = VisibleFiles(table, timeline, None)
    groups: dict[GroupKey, GroupFiles] = {}
    files: dict[str, FileInfo] = {}
    for partition, listed in files_by_partition(table.storage).items():
        visible.collect_partition(groups, partition, [file.name for file in listed])
        files |= {file.path: file for file in listed}
    replaced = visible.find_replaced_groups()
    named = {instant for group in groups.values() for instant in _instants(group)}
    unproved = tuple(sorted(filter(visible.counts_unproved, named)))
    unmarked = tuple(sorted(visible.unmarked & {partition for partition, _ in groups}))
    newest, others = _split(groups, replaced, groups_max)
    return FileListing(
        groups=tuple(_build_facts(key, groups[key], files, replaced) for key in newest),
        left_out=tuple(_build_facts(key, groups[key], files, replaced) for key in others),
        unproved=unproved,
        unmarked=unmarked,
    )


def _split(
    groups: Mapping[GroupKey, GroupFiles], replaced: Collection[GroupKey], groups_max: int
) -> tuple[list[GroupKey], list[GroupKey]]:
    """Return the keys of the file groups that get a row, and of the others, each in order."""
    keys = sorted(groups)
    if len(keys) <= groups_max:
        return keys, []
    by_write = sorted(keys, key=lambda key: max(_instants(groups[key])), reverse=True)
    by_use = sorted(by_write, key=lambda key: key in replaced)
    return sorted(by_use[:groups_max]), sorted(by_use[groups_max:])


def _build_facts(
    key: GroupKey,
    group: GroupFiles,
    files: Mapping[str, FileInfo],
    replaced: Collection[GroupKey],
) -> FileGroupFacts:
    partition, file_id = key
    return FileGroupFacts(
        partition=partition,
        file_id=file_id,
        slices=_slices(group, files),
        is_replaced=key in replaced,
    )


def _instants(group: GroupFiles) -> set[InstantTime]:
    return {*group.bases, *(name.instant for _, name, _ in group.logs)}


def _slices(group: GroupFiles, files: Mapping[str, FileInfo]) -> tuple[SliceFacts, ...]:
    bases: list[InstantTime | None] = [*sorted(group.bases, reverse=True)]
    logs: dict[InstantTime | None, list[tuple[InstantTime, FileInfo]]] = {}
    for done, name, path in sorted(group.logs, key=lambda log: (log[0], log[2])):
        owner = next((base for base in bases if base is not None and base <= done), None)
        logs.setdefault(owner, []).append((name.instant, files[path]))
    if None in logs:
        bases.append(None)
    return tuple(_slice(group, base, logs.get(base, []), files) for base in bases)


def _slice(
    group: GroupFiles,
    base: InstantTime | None,
    logs: list[tuple[InstantTime, FileInfo]],
    files: Mapping[str, FileInfo],
) -> SliceFacts:
    instants = {requested for requested, _ in logs}
    return SliceFacts(
        base=None if base is None else files[group.bases[base]],
        base_instant=base,
        logs=tuple(file for _, file in logs),
        instants=tuple(sorted(instants if base is None else instants | {base})),
    )
