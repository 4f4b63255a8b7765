"""The conflicts that a table's decisions store."""

from __future__ import annotations

from typing import Any

from workers.storage.base import Storage
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision


def conflict_rules(storage: Storage) -> list[Any]:
    """Return the rule of each stored conflict, by instant."""
    stored = (
        decisions.read(storage, instant) for instant in decisions.list_decided_instants(storage)
    )
    return [
        decision.conflict["rule"]
        for decision in stored
        if isinstance(decision, RollbackDecision) and decision.conflict is not None
    ]
