"""What one instant has to do with others: who undid it, what it undid, what keeps it, what follows.

A few small queries, only over instants that can name another one.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from workers.clock import InstantTime

_ROLLBACKS_READ_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantLink:
    relation: str
    """`rolled back by`, `rolls back`, `kept by savepoint`, `completed before it`, `after it`"""
    instant: InstantTime
    action: str
    is_mirrored: bool
    """False for an instant that is on no timeline any more."""


def instant_links(table: Table, requested_at: InstantTime) -> list[InstantLink]:
    """Links both ways: a rollback's targets, and the rollback of a target."""
    instants = InstantRecord.objects.filter(table=table)
    undoing = instants.filter(
        action__in=("rollback", "restore"), requested_at__gte=requested_at
    ).order_by("requested_at")
    links: list[InstantLink] = []
    for at, action, metadata in undoing.values_list("requested_at", "action", "metadata")[
        :_ROLLBACKS_READ_MAX
    ]:
        targets = [str(target) for target in metadata.get("rolled_back") or []]
        if at == requested_at:
            links += [_link("rolls back", target, "", is_mirrored=False) for target in targets]
        elif requested_at in targets:
            links.append(_link("rolled back by", at, action))
    return links + _around(table, requested_at)


def _around(table: Table, requested_at: InstantTime) -> list[InstantLink]:
    """The savepoint on it, and the writes that were requested just before and after."""
    instants = InstantRecord.objects.filter(table=table)
    savepoints = instants.filter(requested_at=requested_at, action="savepoint")
    writes = instants.filter(action__in=DATA_ACTIONS)
    before = writes.filter(requested_at__lt=requested_at).order_by("-requested_at")
    after = writes.filter(requested_at__gt=requested_at).order_by("requested_at")
    links = [_link("kept by savepoint", requested_at, "savepoint")] if savepoints.exists() else []
    for relation, neighbours in (("write before it", before), ("write after it", after)):
        if first := neighbours.values_list("requested_at", "action").first():
            links.append(_link(relation, *first))
    return links


def _link(
    relation: str, instant: InstantTime, action: str, *, is_mirrored: bool = True
) -> InstantLink:
    return InstantLink(relation=relation, instant=instant, action=action, is_mirrored=is_mirrored)
