"""Marker directories and the table lock on storage, as values. Reads only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.mirror.conflict_facts import text
from workers.clock import InstantTime
from workers.concurrency.locks.status import LockView
from workers.errors import MalformedTable
from workers.markers.early_conflict import read_early_conflict
from workers.markers.marker import parse_marker
from workers.markers.rivals import build_claims
from workers.markers.store import StoredNames
from workers.storage.base import Storage

CLAIMS_KEPT = 100
FILES_KEPT = 64
WAITERS_KEPT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryFacts:
    instant: InstantTime
    layout: str
    markers: int
    by_file: list[list[Any]]
    claims: list[list[str]]
    claim_count: int
    verdict: Mapping[str, Any] | None


def directory_facts(storage: Storage, instant: InstantTime, stored: StoredNames) -> DirectoryFacts:
    names = stored.all()
    claims = build_claims(instant, map(parse_marker, names))
    groups = sorted(claims.file_groups)
    return DirectoryFacts(
        instant=instant,
        layout=_layout(stored),
        markers=len(names),
        by_file=[
            [f"MARKERS{index}", len(lines)] for index, lines in sorted(stored.by_file.items())
        ][:FILES_KEPT],
        claims=[[text(partition), text(file_id)] for partition, file_id in groups[:CLAIMS_KEPT]],
        claim_count=len(groups),
        verdict=_verdict(storage, instant),
    )


def _layout(stored: StoredNames) -> str:
    if stored.direct and (stored.by_file or stored.has_type):
        return "mixed"
    if stored.by_file or stored.has_type:
        return "timeline_server_based"
    return "direct" if stored.direct else ""


def _verdict(storage: Storage, instant: InstantTime) -> dict[str, Any] | None:
    try:
        conflict = read_early_conflict(storage, instant)
    except MalformedTable as error:
        return {"problem": text(error)}
    if conflict is None:
        return None
    return {
        "rival": text(conflict.rival),
        "rival_writer": text(conflict.rival_writer),
        "file_groups": len(conflict.file_groups),
        "message": text(conflict.message),
    }


def lock_columns(view: LockView) -> dict[str, Any]:
    """All but the times, which `apply_lock` makes moments of."""
    holder = view.holder
    return {
        "provider": text(view.provider, most=32),
        "place": text(view.place, most=700),
        "problem": text(view.problem, most=2_000),
        "is_held": holder is not None,
        "owner": text(holder.owner) if holder else "",
        "writer": text(holder.writer, most=200) if holder else "",
        "instant": text(holder.instant, most=17) if holder else "",
        "epoch": holder.epoch if holder and holder.epoch and holder.epoch < 2**63 else None,
        "waiters": [
            {
                "writer": text(one.writer),
                "instant": text(one.instant),
                "since_ms": one.since_ms,
                "until_ms": one.until_ms,
                "holder": text(one.holder),
                "host": text(one.host),
                "pid": one.pid,
            }
            for one in view.waiters[:WAITERS_KEPT]
        ],
    }
