"""What each table service leaves in storage, and what of its plan is not there as promised.

Each check reads the timeline and the files of the table; none asks a worker or the mirror. What a
later service took away in its turn is no gap: newer files of a group, and files that a later clean
names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.fields import INSTANT_TIME
from controlplane.operations.deleted_rows import rows_left
from controlplane.operations.own_instants import OwnInstant
from workers.files.names import parse_base_file, parse_log_file, parse_name_instant
from workers.files.partition import files_by_partition
from workers.files.properties import load_properties
from workers.markers.marker import markers_directory
from workers.markers.store import pending_marker_instants
from workers.table.table import Table
from workers.table_services.orphan_files import LOCK_KEPT_MS, find_stale_lock_file
from workers.table_services.repair import UNLOCK
from workers.timeline.clean_metadata import read_clean_metadata
from workers.timeline.instant import Action
from workers.timeline.savepoint_metadata import read_restore_targets, read_savepoint_metadata
from workers.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Item:
    """One thing of the plan."""

    what: str
    effect: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Effect:
    """What there is to compare: the plan, and storage as it is now."""

    table: Table
    timeline: Timeline
    items: Sequence[Item]
    parameters: Mapping[str, str]
    own: OwnInstant | None

    def planned(self, *effects: str) -> list[str]:
        return [item.what for item in self.items if item.effect in effects]


Check = Callable[[Effect], list[str]]


def gaps(service: str, effect: Effect) -> list[str]:
    """What is not as the plan promised, as sentences."""
    return [gap for check in CHECKS[service] for gap in check(effect)]


def _files_gone(effect: Effect) -> list[str]:
    files_left = _paths_present(effect.table, effect.planned("delete"))
    return [f"{path} is still there" for path in files_left]


def _lock_given_back(effect: Effect) -> list[str]:
    """A younger file is that of a writer who has come since."""
    lock = find_stale_lock_file(effect.table) if effect.planned(UNLOCK) else None
    if lock is None:
        return []
    age_ms = effect.table.ports.clock.now_ms() - lock[0].modified_ms
    return [f"{path} is still there" for path in effect.planned(UNLOCK) if age_ms >= LOCK_KEPT_MS]


def _markers_gone(effect: Effect) -> list[str]:
    marked = {
        markers_directory(instant) for instant in pending_marker_instants(effect.table.storage)
    }
    return [f"{path} is still there" for path in effect.planned("delete") if path in marked]


def _files_laid(effect: Effect) -> list[str]:
    paths = effect.planned("lay")
    files_present = set(_paths_present(effect.table, paths))
    return [f"{path} is missing" for path in paths if path not in files_present]


def _properties_as_planned(effect: Effect) -> list[str]:
    properties = load_properties(effect.table.storage)
    wrong = [
        f"property {item.what} is not {item.detail}"
        for item in effect.items
        if item.effect == "write" and properties.get(item.what) != item.detail
    ]
    kept = [key for key in effect.planned("remove") if key in properties]
    return wrong + [f"property {key} is still there" for key in kept]


def _instants_off_the_timeline(effect: Effect) -> list[str]:
    """A savepoint has its commit's time and stays."""
    active = {
        one.requested_at for one in effect.timeline.instants if one.action is not Action.SAVEPOINT
    }
    planned = effect.planned("undo", "archive")
    return [f"{instant} is still on the timeline" for instant in planned if instant in active]


def _instants_in_the_history(effect: Effect) -> list[str]:
    planned = effect.planned("archive")
    if not planned:
        return []
    archived = {one.requested_at for one in effect.table.list_archived_times(is_partial=True)}
    return [f"{instant} is not in the history" for instant in planned if instant not in archived]


def _undone_by_the_restore(effect: Effect) -> list[str]:
    planned = effect.planned("undo")
    if effect.own is None:
        return planned
    undone = set(read_restore_targets(effect.own.content))
    return [f"the restore does not name {instant}" for instant in planned if instant not in undone]


def _savepoint_holds(effect: Effect) -> list[str]:
    paths = [what for what in effect.planned("keep") if not INSTANT_TIME.match(what)]
    if effect.own is None:
        return ["the savepoint is not there"]
    held = read_savepoint_metadata(effect.own.content).paths
    files_present = set(_paths_present(effect.table, paths))
    free = [f"the savepoint does not hold {path}" for path in paths if path not in held]
    return free + [f"{path} is missing" for path in paths if path not in files_present]


def _savepoint_gone(effect: Effect) -> list[str]:
    savepoints_left = {
        one.requested_at for one in effect.timeline.instants if one.action is Action.SAVEPOINT
    }
    planned = effect.planned("delete")
    return [f"the savepoint of {one} is still there" for one in planned if one in savepoints_left]


def _groups_compacted(effect: Effect) -> list[str]:
    planned = effect.planned("merge")
    if effect.own is None:
        return planned
    if not effect.own.commit.compacted:
        return [f"{effect.own.instant.requested_at} is no compaction"]
    done = {_name(*key) for key in effect.own.commit.file_groups}
    return [f"{name} was not merged" for name in planned if name not in done]


def _groups_replaced(effect: Effect) -> list[str]:
    paths = (_group_of(path) for path in effect.planned("delete"))
    planned = dict.fromkeys([*effect.planned("rewrite"), *filter(None, paths)])
    if effect.own is None:
        return list(planned)
    done = {_name(*key) for key in effect.own.commit.replaced_groups}
    return [f"{name} was not replaced" for name in planned if name not in done]


def _groups_deleted_from(effect: Effect) -> list[str]:
    """Items of a delete say `<count> rows of <file group>`."""
    planned = [what.partition(" rows of ")[2] for what in effect.planned("delete")]
    if effect.own is None:
        return planned
    done = {_name(*key) for key in effect.own.commit.file_groups}
    return [f"{name} was not written" for name in planned if name not in done]


def _rows_gone(effect: Effect) -> list[str]:
    if effect.own is None or effect.own.is_archived:
        return []
    names = {what.partition(" rows of ")[2] for what in effect.planned("delete")}
    left = rows_left(effect.table, effect.own.instant, effect.parameters, names)
    return [f"{count} of the rows are still in {name}" for name, count in sorted(left.items())]


def written_gaps(table: Table, timeline: Timeline, own: OwnInstant) -> list[str]:
    """What of the files that a commit wrote is missing, or is not as long as it was written."""
    effect = Effect(table, timeline, (), {}, own)
    return [*_written_files_stand(effect), *_written_files_whole(effect)]


def missing_files(table: Table, timeline: Timeline, own: OwnInstant) -> list[str]:
    """What of the files that a commit wrote is missing, as sentences."""
    return _written_files_stand(Effect(table, timeline, (), {}, own))


def _written_files_whole(effect: Effect) -> list[str]:
    """Only files of its own name: what older versions append to, others make longer."""
    if effect.own is None or effect.own.is_archived:
        return []
    at = effect.own.instant.requested_at
    sizes = {
        stat.path: stat.bytes
        for stat in effect.own.commit.stats
        if stat.bytes and parse_name_instant(stat.path.rpartition("/")[2]) == at
    }
    infos = effect.table.storage.at_once(effect.table.storage.info, list(sizes))
    return [
        f"{info.path} has {info.size:,} bytes instead of {sizes[info.path]:,}"
        for info in infos
        if info is not None and info.size != sizes[info.path]
    ]


def _written_files_stand(effect: Effect) -> list[str]:
    """An archived instant's files may have gone since, by cleans that are archived as well."""
    if effect.own is None or effect.own.is_archived:
        return []
    paths = [stat.path for stat in effect.own.commit.stats]
    files_present = set(_paths_present(effect.table, paths))
    missing = [path for path in paths if path not in files_present]
    if not missing:
        return []
    excused = _superseded(effect, effect.own, missing) | _cleaned(effect, effect.own)
    return [f"{path} is missing" for path in missing if path not in excused]


def _rows_came(effect: Effect) -> list[str]:
    """Items of an overwrite say `<count> rows of <path>`."""
    counts = [what.partition(" ")[0] for what in effect.planned("write")]
    is_any = any(count.isdigit() and int(count) for count in counts)
    if is_any and effect.own is not None and not effect.own.commit.stats:
        return [f"{effect.own.instant.requested_at} wrote no file"]
    return []


def _superseded(effect: Effect, own: OwnInstant, missing: Iterable[str]) -> set[str]:
    """Of groups that have a newer file: a clean may have taken the older ones."""
    by_partition: dict[str, list[str]] = defaultdict(list)
    for path in missing:
        by_partition[path.rpartition("/")[0]].append(path)
    excused = set()
    listed = files_by_partition(effect.table.storage, sorted(by_partition))
    for partition, files in listed.items():
        newer = {
            _group_of(file.path)
            for file in files
            if (parse_name_instant(file.name) or "") > own.instant.requested_at
        }
        excused |= {path for path in by_partition[partition] if _group_of(path) in newer}
    return excused


def _cleaned(effect: Effect, own: OwnInstant) -> set[str]:
    """What later cleans of the active timeline say that they deleted."""
    table, since = effect.table, own.instant.requested_at
    gone = set()
    for instant in effect.timeline.iterate_completed():
        if instant.action is Action.CLEAN and instant.requested_at > since:
            clean_metadata = read_clean_metadata(table.storage.read(table.layout.path(instant)))
            for partition, names in clean_metadata.deleted_by_partition.items():
                gone |= {f"{partition}/{name}" if partition else name for name in names}
    return gone


def _paths_present(table: Table, paths: Sequence[str]) -> list[str]:
    infos = table.storage.at_once(table.storage.info, paths)
    return [path for path, info in zip(paths, infos, strict=True) if info is not None]


def _group_of(path: str) -> str | None:
    partition, _, file = path.rpartition("/")
    parsed = parse_base_file(file) or parse_log_file(file)
    return _name(partition, parsed.file_id) if parsed else None


def _name(partition: str, file_id: str) -> str:
    return f"{partition}/{file_id}" if partition else file_id


_OVERWRITE = (_groups_replaced, _rows_came, _written_files_stand)
CHECKS: Mapping[str, tuple[Check, ...]] = {
    "adopt": (_properties_as_planned,),
    "archive": (_instants_off_the_timeline, _instants_in_the_history, _files_gone),
    "clean": (_files_gone,),
    "clustering": (_groups_replaced, _written_files_stand),
    "compaction": (_groups_compacted, _written_files_stand),
    "delete": (_groups_deleted_from, _rows_gone, _written_files_stand),
    "delete_markers": (_markers_gone,),
    "delete_partition": (_groups_replaced,),
    "delete_savepoint": (_savepoint_gone,),
    "insert_overwrite": _OVERWRITE,
    "insert_overwrite_table": _OVERWRITE,
    "repair": (_files_gone, _files_laid, _lock_given_back),
    "restore": (_undone_by_the_restore, _instants_off_the_timeline, _files_gone),
    "rollback_several": (_instants_off_the_timeline, _files_gone),
    "savepoint": (_savepoint_holds,),
    "upgrade": (_properties_as_planned, _files_laid, _files_gone),
}
"""Every service has its own; a test says which one is missing here."""
