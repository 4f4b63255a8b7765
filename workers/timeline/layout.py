"""Instant <-> file name, for timeline layout 2 (table versions 8, 9) and, for reading only, layout
1 (version 6).

Source: format page 2.1 to 2.3. A pending compaction or clustering completes under another action's
name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from workers.clock import InstantTime
from workers.table_layout import TIMELINE, TIMELINE_V1
from workers.timeline.instant import Action, CompletedInstant, Instant, State

_PENDING = re.compile(r"(\d{14}|\d{17})\.(?:([a-z]+)\.)?(requested|inflight)")
_COMPLETED_V2 = re.compile(r"(\d{14}|\d{17})_(\d{14}|\d{17})\.([a-z]+)")
_COMPLETED_V1 = re.compile(r"(\d{14}|\d{17})\.([a-z]+)")
_ACTIONS = {action.value: action for action in Action}


@dataclass(frozen=True, slots=True)
class TimelineLayout:
    """The file names of instants (format page 2): version 2 since table version 8, 1 before."""

    version: int = 2

    @property
    def directory(self) -> str:
        """The active timeline's folder, relative to the table."""
        return TIMELINE.path if self.version == 2 else TIMELINE_V1.path

    def path(self, instant: Instant) -> str:
        """Return the path of the instant's file, relative to the table; the inverse of `parse`."""
        return f"{self.directory}/{self._name(instant)}"

    def _name(self, instant: Instant) -> str:
        if instant.state is State.COMPLETED:
            if self.version == 1:
                return f"{instant.requested_at}.{instant.action}"
            return f"{instant.requested_at}_{instant.completed_at}.{instant.action}"
        if instant.action is Action.COMMIT and instant.state is State.INFLIGHT:
            return f"{instant.requested_at}.inflight"
        return f"{instant.requested_at}.{instant.action}.{instant.state}"

    def parse(self, name: str) -> Instant | None:
        """Return the instant of a file of the timeline directory; None for any other file."""
        return _parse_name(self.version, name)


@lru_cache(maxsize=65_536)
def _parse_name(version: int, name: str) -> Instant | None:
    """Parse and remember: a writer lists the same names several times in one commit."""
    if match := _PENDING.fullmatch(name):
        requested_at, action_text, state = match.groups()
        action = _ACTIONS.get(action_text or "commit")
        return Instant(requested_at, action, State(state)) if action else None
    if version == 2 and (match := _COMPLETED_V2.fullmatch(name)):
        requested_at, completed_at, action_text = match.groups()
        action = _ACTIONS.get(action_text)
        return _build_completed(requested_at, action, completed_at)
    if version == 1 and (match := _COMPLETED_V1.fullmatch(name)):
        requested_at, action_text = match.groups()
        action = _ACTIONS.get(action_text)
        # Layout 1 does not record completion times; request order is all there is.
        return _build_completed(requested_at, action, requested_at)
    return None


def _build_completed(
    requested_at: InstantTime, action: Action | None, completed_at: InstantTime
) -> Instant | None:
    return CompletedInstant(requested_at, action, State.COMPLETED, completed_at) if action else None


def pending_action(action: Action) -> tuple[Action, ...]:
    """Return the names under which an instant that completed as `action` was pending."""
    match action:
        case Action.COMMIT:
            return (Action.COMMIT, Action.COMPACTION)
        case Action.DELTACOMMIT:
            return (Action.DELTACOMMIT, Action.LOGCOMPACTION)
        case Action.REPLACECOMMIT:
            return (Action.REPLACECOMMIT, Action.CLUSTERING)
        case _:
            return (action,)
