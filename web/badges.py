"""Words, icon and colour of every state, one table for each state machine. Pure.

The icon is a symbol of static/web/icons.svg, the tone a class of base.css. A test holds each table
against the states that its machine has.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Badge(NamedTuple):
    """Never colour alone: a word and an icon say the same."""

    word: str
    icon: str
    tone: str


_REQUESTED = Badge("requested", "requested", "quiet")
_INFLIGHT = Badge("inflight", "inflight", "busy")
_COMPLETED = Badge("completed", "completed", "good")
_STARTING = Badge("starting", "inflight", "busy")
_RUNNING = Badge("running", "inflight", "busy")
_CANCELLING = Badge("cancelling", "undone", "undone")
_STOPPING = Badge("stopping", "undone", "undone")
_SUCCEEDED = Badge("succeeded", "completed", "good")
_CANCELLED = Badge("cancelled", "undone", "undone")
_FAILED = Badge("failed", "failed", "bad")
_CONFLICTED = Badge("conflicted", "conflict", "bad")
_ROLLED_BACK = Badge("rolled back", "undone", "undone")
_COMMITTED = Badge("committed", "completed", "good")
_SILENT = Badge("silent", "suspect", "warn")
_FENCED = Badge("fenced", "blocked", "warn")
_LOST = Badge("lost", "failed", "bad")
_REFUSED = Badge("refused", "blocked", "bad")
_ENDED = Badge("ended", "requested", "quiet")
_UNKNOWN = Badge("unknown", "suspect", "warn")

BADGES: Mapping[str, Mapping[str, Badge]] = MappingProxyType(
    {
        "instant": {
            "requested": _REQUESTED,
            "inflight": _INFLIGHT,
            "completed": _COMPLETED,
            "conflicted": _CONFLICTED,
            "rolled_back": _ROLLED_BACK,
        },
        "operation": {
            "awaiting": Badge("awaiting approval", "blocked", "warn"),
            "queued": Badge("queued", "requested", "quiet"),
            "starting": _STARTING,
            "running": _RUNNING,
            "stopping": _STOPPING,
            "cancelling": _CANCELLING,
            "unknown": _UNKNOWN,
            "succeeded": _SUCCEEDED,
            "failed": _FAILED,
            "conflicted": _CONFLICTED,
            "rolled_back": _ROLLED_BACK,
            "cancelled": _CANCELLED,
            "lost": _LOST,
            "fenced": _FENCED,
            "refused": _REFUSED,
        },
        "decision": {
            "pending": Badge("pending", "requested", "warn"),
            "approved": Badge("approved", "check", "good"),
            "declined": Badge("declined", "blocked", "bad"),
            "expired": Badge("expired", "clock", "quiet"),
            "void": Badge("void", "blocked", "quiet"),
            "withdrawn": Badge("withdrawn", "undone", "undone"),
        },
        "turn": {
            "requested": _REQUESTED,
            "skipped": Badge("skipped", "undone", "quiet"),
            "nothing_to_do": Badge("nothing to do", "requested", "quiet"),
            "not_run": Badge("not run", "warning", "warn"),
            "refused": _REFUSED,
        },
        "audit": {
            "requested": _REQUESTED,
            "done": Badge("done", "completed", "good"),
            "succeeded": _SUCCEEDED,
            "failed": _FAILED,
            "conflicted": _CONFLICTED,
            "committed": _COMMITTED,
            "rolled_back": _ROLLED_BACK,
            "cancelled": _CANCELLED,
            "lost": _LOST,
            "fenced": _FENCED,
            "refused": _REFUSED,
        },
        "writer": {
            "alive": Badge("alive", "completed", "good"),
            "suspect": Badge("suspect", "suspect", "warn"),
            "expired": Badge("expired", "expired", "bad"),
            "committed": _COMMITTED,
            "conflicted": _CONFLICTED,
            "rolled_back": _ROLLED_BACK,
            "ended": _ENDED,
            "rolling_back": Badge("rolling back", "undone", "undone"),
        },
        "stream": {
            "starting": _STARTING,
            "writing": Badge("writing", "inflight", "busy"),
            "waiting": Badge("waiting", "requested", "good"),
            "silent": _SILENT,
            "cancelling": _CANCELLING,
            "ended": _ENDED,
        },
        "sink": {
            "starting": _STARTING,
            "running": _RUNNING,
            "stuck": Badge("stuck", "warning", "bad"),
            "silent": _SILENT,
            "stopping": _STOPPING,
            "cancelling": _CANCELLING,
            "stopped": Badge("stopped", "requested", "quiet"),
            "fenced": _FENCED,
            "lost": _LOST,
            "failed": _FAILED,
            "unreadable": Badge("unreadable", "failed", "bad"),
        },
        "offsets": {
            "equal": Badge("equal", "completed", "good"),
            "writing": Badge("writing", "inflight", "busy"),
            "behind": Badge("behind the table", "warning", "bad"),
            "ahead": Badge("ahead of the table", "warning", "warn"),
            "past_end": Badge("past the topic's end", "failed", "bad"),
            "disagrees": Badge("table offset moved back", "warning", "bad"),
            "unknown": _UNKNOWN,
        },
        "transaction": {
            "committed": _COMMITTED,
            "aborted": Badge("aborted", "undone", "undone"),
        },
        "lock": {
            "free": Badge("free", "completed", "good"),
            "held": Badge("held", "inflight", "busy"),
            "overdue": Badge("lease expired", "expired", "bad"),
            "unknown": _UNKNOWN,
        },
        "waiter": {
            "holds": Badge("holds the lock", "inflight", "busy"),
            "waits": Badge("waits for the lock", "requested", "quiet"),
        },
        "marker_server": {
            "running": Badge("answering", "completed", "good"),
            "draining": Badge("draining", "inflight", "busy"),
            "down": Badge("not answering", "failed", "bad"),
        },
        "health": {
            "good": Badge("Healthy", "completed", "good"),
            "warn": Badge("Warning", "warning", "warn"),
            "bad": Badge("Critical", "failed", "bad"),
            "quiet": Badge("Unknown", "requested", "quiet"),
        },
        "sending": {
            "waiting": Badge("waiting", "requested", "quiet"),
            "sending": Badge("sending", "inflight", "busy"),
            "sent": Badge("sent", "completed", "good"),
            "dead": Badge("failed", "failed", "bad"),
        },
        "proof": {
            "requested": Badge("waiting", "requested", "quiet"),
            "inflight": Badge("checking", "inflight", "busy"),
            "completed": Badge("verified", "completed", "good"),
            "failed": Badge("not verified", "failed", "bad"),
        },
        "rollback": {
            "ready": Badge("", "check", "good"),
            "alive": Badge("", "warning", "warn"),
            "later": Badge("", "blocked", "quiet"),
        },
        "side": {
            "winner": Badge("winner", "completed", "good"),
            "loser": Badge("loser", "failed", "bad"),
        },
        "conflict": {
            "write": Badge("write", "files", "warn"),
            "schema": Badge("schema", "schema", "undone"),
        },
        "schema_verdict": {
            "same": Badge("same", "check", "good"),
            "compatible": Badge("compatible", "check", "good"),
            "breaking": Badge("breaking", "failed", "bad"),
            "unknown": Badge("unknown", "suspect", "warn"),
        },
        "schema_change": {
            "same": Badge("same", "check", "quiet"),
            "added": Badge("+ added", "check", "good"),
            "removed": Badge("\N{MINUS SIGN} removed", "failed", "bad"),
            "changed": Badge("≠ changed", "warning", "warn"),
            "moved": Badge("↕ moved", "warning", "warn"),
        },
        "cell": {
            "set": Badge("set", "check", "good"),
            "never": Badge("never", "requested", "quiet"),
            "null": Badge("null", "warning", "warn"),
            "not_brought": Badge("missing", "warning", "warn"),
            "deleted": Badge("deleted", "warning", "warn"),
            "row_deleted": Badge("row deleted", "warning", "warn"),
            "erased": Badge("erased", "warning", "warn"),
            "unknown": _UNKNOWN,
        },
        "row_op": {
            "inserted": Badge("inserted", "check", "good"),
            "updated": Badge("updated", "schema", "busy"),
            "deleted": Badge("deleted", "failed", "bad"),
            "written": Badge("written", "files", "quiet"),
            "stood": Badge("unchanged", "requested", "quiet"),
        },
        "message": {
            "debug": Badge("", "check", "good"),
            "info": Badge("", "check", "good"),
            "success": Badge("", "check", "good"),
            "warning": Badge("", "check", "warn"),
            "error": Badge("", "failed", "bad"),
        },
    }
)


def badge(machine: str, state: str) -> Badge:
    """What a state looks like; one that a newer version wrote is shown by its name."""
    return BADGES[machine].get(state) or Badge(state.replace("_", " "), "suspect", "quiet")
