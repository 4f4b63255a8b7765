"""The table services of a table as their page shows them: one card each, with backlog, last run and
what holds it back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.http import QueryDict
from django.utils import timezone

from controlplane.mirror.queries.files import Backlog, backlog
from controlplane.mirror.queries.table_services import (
    PendingPlanRow,
    ServiceRunRow,
    pending_plans,
    service_history,
)
from controlplane.operations.actions import ServiceKind, service_kinds
from controlplane.operations.descriptions.services import Service, get_service
from controlplane.operations.queries import OperationRow, recent_service_operations
from controlplane.operations.schedules import ServiceSettingRow, service_settings
from web import figures
from web.chart_marks import Figure
from web.list_parts import build_part, cut_list, read_window
from web.templatetags.lake import age, count, instant_age_s, size

if TYPE_CHECKING:
    from controlplane.tables.models import Table

HISTORY_SHOWN = 100
OTHERS = ("delete", "delete_partition", "insert_overwrite", "insert_overwrite_table")
"""What takes rows away on purpose."""
LEFT_BEHIND = "repair"
OF_FOREIGN = ("upgrade", "adopt")
"""What makes a table of another engine one that is written here."""
OPERATIONS_READ = 500
STARTED_SHOWN = 20
CARDS = ("compaction", "clustering", "clean", "archive")
"""The services that keep a table in shape; the others start from what they act on."""
_PLAN_OLD_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    label: str
    value: str
    note: str = ""
    is_late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCard:
    kind: ServiceKind
    words: Service
    figures: Sequence[Figures]
    last: ServiceRunRow | None
    ended: OperationRow | None
    """The last run asked for here that ended; archiving leaves no instant of its own."""
    setting: ServiceSettingRow | None
    running: OperationRow | None
    blocked: str = ""
    """Why it would not run now, or why it is late; empty when nothing speaks against it."""
    plans: Sequence[PendingPlanRow] = field(default_factory=tuple)


def service_board(table: Table, user: User, query: QueryDict) -> dict[str, Any]:
    window = read_window(query, "history", HISTORY_SHOWN)
    whole_history = service_history(table, window.stop + 1)
    history = whole_history[:HISTORY_SHOWN]
    plans = pending_plans(table)
    settings = {one.service: one for one in service_settings(table)}
    operations = recent_service_operations(table, user, OPERATIONS_READ)
    kinds = {one.name: one for one in service_kinds()}
    left = backlog(table)
    cards = [
        ServiceCard(
            kind=kinds[name],
            words=get_service(name),
            figures=_figures(name, left, plans),
            last=next((run for run in history if run.service == name), None),
            ended=next((one for one in operations if one.service == name and one.is_final), None),
            setting=settings.get(name),
            running=next(
                (one for one in operations if one.service == name and not one.is_final), None
            ),
            blocked=_blocked(table, name, plans),
            plans=[plan for plan in plans if plan.action == name],
        )
        for name in CARDS
        if name in kinds
    ]
    offered = (LEFT_BEHIND, *OTHERS, *(OF_FOREIGN if table.is_foreign else ()))
    return {
        "cards": cards,
        "plans": plans,
        "history": build_part(window, whole_history[window.start :], total=None),
        "others": [(kinds[name], get_service(name)) for name in offered if name in kinds],
        "durations": _durations(history),
        "service_operations": cut_list(query, "started", operations, STARTED_SHOWN),
    }


def _figures(name: str, left: Backlog, plans: Sequence[PendingPlanRow]) -> list[Figures]:
    waiting = [plan for plan in plans if plan.action == name]
    match name:
        case "compaction":
            return [
                Figures(label="Pending plans", value=count(len(waiting))),
                Figures(
                    label="Oldest log file",
                    value=_since(left.oldest_log_at) or "none",
                ),
                Figures(
                    label="Writes since",
                    value=count(left.delta_commits),
                    note=f"{count(left.log_files)} logs, {size(left.log_bytes)}",
                ),
            ]
        case "clustering":
            return [
                Figures(label="Pending plans", value=count(len(waiting))),
                Figures(label="File groups", value=count(left.file_groups)),
                Figures(label="Small base files", value=count(left.small_files)),
            ]
        case "clean":
            return [
                Figures(label="Pending plans", value=count(len(waiting))),
                Figures(label="Commits since", value=count(left.commits_since_clean)),
                Figures(label="Old files", value=count(left.old_files), note=size(left.old_bytes)),
            ]
        case _:
            return [
                Figures(label="Active instants", value=count(left.active_instants)),
                Figures(label="Archived", value=count(left.archived_instants)),
                Figures(label="Blocking plans", value=count(len(plans))),
            ]


def _blocked(table: Table, name: str, plans: Sequence[PendingPlanRow]) -> str:
    if name == "compaction" and table.table_type == "COPY_ON_WRITE":
        return "A copy-on-write table has no log files to compact"
    if name == "archive" and plans:
        return f"Nothing after the pending {plans[0].action} of {plans[0].instant} can be archived"
    old = [plan for plan in plans if plan.action == name and _age_s(plan.instant) > _PLAN_OLD_S]
    if old:
        return f"Plan {old[0].instant} is pending for {age(_age_s(old[0].instant))}: run it"
    return ""


def _durations(history: Sequence[ServiceRunRow]) -> Figure | None:
    taken: dict[str, list[float]] = defaultdict(list)
    for run in history:
        if run.took_ms is not None:
            taken[run.service].append(round(run.took_ms / 1000, 3))
    return figures.boxes(sorted(taken.items()), unit="seconds") if taken else None


def _since(instant: str | None) -> str:
    return age(_age_s(instant)) if instant else ""


def _age_s(instant: str) -> float:
    return instant_age_s(instant, timezone.now())
