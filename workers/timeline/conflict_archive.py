"""An archive of conflicts, for when their decision objects are removed with the archived timeline.

Users often investigate a conflict the next morning, and a busy table has archived it by then.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from dataclasses import asdict

from workers.clock import InstantTime
from workers.errors import MalformedTable, NotFound
from workers.json_text import read_json
from workers.storage.base import Storage
from workers.table_layout import LOST_WRITES
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision

KEPT_MAX = 500
"""The newest ones of a table."""
_log = logging.getLogger(__name__)


def keep_archived(storage: Storage, pending: Collection[InstantTime]) -> None:
    """Copy the conflicts among the decisions that `decisions.remove_archived` is about to delete.

    A repetition changes nothing.
    """
    start = decisions.load_archive_border(storage)
    for instant in decisions.list_decided_instants(storage):
        if instant < start and instant not in pending:
            _keep(storage, instant)
    for name in list_instants(storage)[:-KEPT_MAX]:
        storage.delete(_get_path(name))


def list_instants(storage: Storage) -> list[InstantTime]:
    """List the archived instants, oldest first."""
    return sorted(file.name for file in storage.list_files(LOST_WRITES.path) if file.name.isdigit())


def read_kept(storage: Storage, instant: InstantTime) -> tuple[RollbackDecision, int] | None:
    """Return the decision, and when it was made in epoch ms. Raises MalformedTable."""
    try:
        content = storage.read(_get_path(instant))
    except NotFound:
        return None
    try:
        body = read_json(content)
        return RollbackDecision(**body["decision"]), int(body["decided_ms"])
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedTable("kept conflict is damaged", path=_get_path(instant)) from error


def _keep(storage: Storage, instant: InstantTime) -> None:
    decision_file = storage.info(decisions.get_decision_path(instant))
    try:
        decision = decisions.read(storage, instant)
    except MalformedTable as error:  # An unreadable decision must not stop archiving forever.
        _log.warning("decision not looked into: instant=%s error=%s", instant, error)
        return
    if (
        decision_file is None
        or not isinstance(decision, RollbackDecision)
        or decision.conflict is None
    ):
        return
    body = {"decision": asdict(decision), "decided_ms": decision_file.modified_ms}
    storage.put(_get_path(instant), json.dumps(body, separators=(",", ":")).encode())


def _get_path(instant: InstantTime) -> str:
    return LOST_WRITES.file(instant)
