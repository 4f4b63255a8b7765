"""The phases of an instant, from the mirror: requested, inflight, validated, decided, completed.

Two clocks tell of them. The writer's: the times in the instant's name, and what a writer of Sluice
says in its commit. The storage's: when the timeline's files were made. Of another engine's instant
the files tell all that is known, since its name may be in its writer's time zone; of a commit of
Sluice only when the completed file was there, for its completion time is chosen as it is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import quantiles
from typing import Any, Final, Literal

from controlplane.mirror.models import InstantRecord
from controlplane.mirror.timeline_rows import BORROWING
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from workers.clock import InstantTime, parse_instant
from workers.timeline.extra_metadata import DECIDED, INFLIGHT, VALIDATED
from workers.timeline.instant import State

PhaseName = Literal["requested", "inflight", "validated", "decided", "completed"]
PhaseState = Literal["known", "unknown", "not_yet", "clock"]
"""`clock`: known, and the next one is earlier: a clock ran backwards, or two differ."""
PHASES: Final[tuple[PhaseName, ...]] = (
    "requested",
    "inflight",
    "validated",
    "decided",
    "completed",
)
SPREAD_OF: Final = 200
_COPIED_MS: Final = 60_000
"""A file that is so much younger or older than its writer says was copied here."""
_ZONES_MS: Final = 27 * 3_600_000
"""Two time zones are no further apart; a file that is further from its name was copied here."""
_TICK_MS: Final = 10
"""A file system dates by its kernel's last tick."""
_REQUESTED, _COMPLETED = State.REQUESTED.value, State.COMPLETED.value


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow:
    name: PhaseName
    state: PhaseState
    at_ms: int | None
    """When the instant came to it, epoch ms; None where that is not known."""
    duration_ms: int | None
    """How long until the next phase that is known; never below zero. None for the last one, and
    where a clock does not let it be known.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSpread:
    """How long the newest completed writes of a table stayed in one phase, in ms."""

    name: PhaseName
    writes: int
    """How many of them say it."""
    p50_ms: float
    p95_ms: float


def phases_of(record: InstantRecord) -> list[PhaseRow]:
    """All five, in order."""
    return _rows(
        _moments(
            record.requested_at,
            record.action,
            record.completed_at,
            record.metadata.get("phases") or {},
            record.file_times or {},
        ),
        is_pending=record.completed_at is None,
    )


def undone_phases(requested_at: InstantTime) -> list[PhaseRow]:
    """Phases of an instant that was taken back: storage keeps no more of it than its request."""
    return _rows({"requested": parse_instant(requested_at)}, is_pending=False)


def instant_phases(table: Table, requested_at: InstantTime) -> list[PhaseRow]:
    """The phases of the instant with this time that is no savepoint; empty where none is mirrored.
    One query.
    """
    instants = InstantRecord.objects.filter(table=table, requested_at=requested_at)
    record = instants.exclude(action__in=BORROWING).order_by("action").first()
    return [] if record is None else phases_of(record)


def phase_spreads(table: Table) -> list[PhaseSpread]:
    """How long phases take: of the newest `SPREAD_OF` completed writes on the active timeline, by
    phase, without phases of which fewer than two are known. One query.
    """
    newest = (
        InstantRecord.objects.filter(table=table, completed_at__isnull=False, is_archived=False)
        .filter(action__in=DATA_ACTIONS)
        .order_by("-requested_at")
        .values_list("requested_at", "action", "completed_at", "metadata__phases", "file_times")
    )
    durations: dict[PhaseName, list[int]] = {name: [] for name in PHASES}
    for requested_at, action, completed_at, said, times in newest[:SPREAD_OF]:
        moments = _moments(requested_at, action, completed_at, said or {}, times or {})
        for phase in _rows(moments, is_pending=False):
            if phase.duration_ms is not None:
                durations[phase.name].append(phase.duration_ms)
    return [_spread(name, known) for name, known in durations.items() if len(known) > 1]


def _spread(name: PhaseName, durations_ms: list[int]) -> PhaseSpread:
    cuts = quantiles(durations_ms, n=100, method="inclusive")
    return PhaseSpread(name=name, writes=len(durations_ms), p50_ms=cuts[49], p95_ms=cuts[94])


def _moments(
    requested_at: InstantTime,
    action: str,
    completed_at: InstantTime | None,
    said: Mapping[str, Any],
    file_ms: Mapping[str, int],
) -> dict[PhaseName, int]:
    """When it came to each phase that is known, epoch ms."""
    name_ms = parse_instant(requested_at)
    if said:
        return _of_ours(name_ms, completed_at, said, file_ms)
    requested_ms = file_ms.get(_REQUESTED)
    is_near = requested_ms is None or abs(requested_ms - name_ms) < _ZONES_MS
    if (file_ms and is_near) or action in BORROWING:
        # Hudi makes no requested file of some actions.
        return _known({name: file_ms.get(name) for name in ("requested", "inflight", "completed")})
    # Table version 6 keeps no time of completion in its names.
    is_timed = completed_at is not None and completed_at != requested_at
    return _known(
        {
            "requested": name_ms,
            "completed": parse_instant(completed_at) if completed_at and is_timed else None,
        }
    )


def _of_ours(
    name_ms: int,
    completed_at: InstantTime | None,
    said: Mapping[str, Any],
    file_ms: Mapping[str, int],
) -> dict[PhaseName, int]:
    completed_ms = None if completed_at is None else parse_instant(completed_at)
    inflight_ms, inflight_file_ms = said.get(INFLIGHT), file_ms.get(INFLIGHT)
    if inflight_ms is None and inflight_file_ms is not None:  # A service does not say it.
        is_tick = 0 < name_ms - inflight_file_ms <= _TICK_MS
        inflight_ms = name_ms if is_tick else inflight_file_ms
    is_here = (
        inflight_ms is not None
        and inflight_file_ms is not None
        and abs(inflight_file_ms - inflight_ms) < _COPIED_MS
    )
    if completed_ms is not None and is_here:
        # A bucket says whole seconds, a directory the time of the last tick: neither is before it.
        completed_ms = max(completed_ms, file_ms.get(_COMPLETED, 0))
    return _known(
        {
            "requested": name_ms,
            "inflight": inflight_ms,
            "validated": said.get(VALIDATED),
            "decided": said.get(DECIDED),
            "completed": completed_ms,
        }
    )


def _known(moments: Mapping[PhaseName, int | None]) -> dict[PhaseName, int]:
    return {name: at for name, at in moments.items() if at is not None}


def _rows(moments: Mapping[PhaseName, int], *, is_pending: bool) -> list[PhaseRow]:
    known = [(name, moments[name]) for name in PHASES if name in moments]
    lasted = {name: later - at for (name, at), (_, later) in pairwise(known)}
    return [
        PhaseRow(
            name=name,
            state=_state(name, moments, lasted.get(name), is_pending=is_pending),
            at_ms=moments.get(name),
            duration_ms=lasted[name] if lasted.get(name, -1) >= 0 else None,
        )
        for name in PHASES
    ]


def _state(
    name: PhaseName, moments: Mapping[PhaseName, int], lasted_ms: int | None, *, is_pending: bool
) -> PhaseState:
    if name not in moments:
        return "not_yet" if is_pending and name == "completed" else "unknown"
    return "clock" if lasted_ms is not None and lasted_ms < 0 else "known"
