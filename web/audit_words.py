"""Actions of the audit as a person reads them: `service.schedule` is "scheduled a service"."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

ACTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "alert.rule": "changed an alert rule",
        "alert.silence": "silenced an alert",
        "alert.unsilence": "ended a silence",
        "approval.approve": "approved an operation",
        "approval.decline": "declined an operation",
        "approval.request": "requested an approval",
        "approval.rule": "changed an approval rule",
        "approval.withdraw": "withdrew a request",
        "channel.change": "changed an alert channel",
        "channel.create": "added an alert channel",
        "channel.delete": "deleted an alert channel",
        "channel.test": "tested an alert channel",
        "columns.mask": "changed the masked columns",
        "connection.change": "changed a connection",
        "connection.create": "added a connection",
        "connection.delete": "deleted a connection",
        "connection.grant": "changed who may use a connection",
        "connection.read": "used a connection",
        "connection.test": "tested a connection",
        "demo.kill_participant": "killed a sink participant of the demo",
        "demo.kill_writer": "killed a writer of the demo",
        "demo.load_wrong_prices": "loaded wrong prices in the demo",
        "demo.reset": "reset the demo",
        "demo.restart": "restarted the demo",
        "demo.story": "began the story of the demo",
        "grant.give": "granted a role",
        "grant.take": "revoked a role",
        "group.add": "added a group member",
        "group.create": "created a user group",
        "group.delete": "deleted a user group",
        "group.remove": "removed a group member",
        "health.threshold": "changed a health threshold",
        "marker_server.restart": "restarted the marker server",
        "operation.abort": "stopped a writer",
        "operation.again": "ran an operation again",
        "operation.cancel": "cancelled an operation",
        "operation.rollback": "rolled back",
        "operation.write": "started a write",
        "query.delete": "deleted a saved query",
        "query.save": "saved a query",
        "recovery.rollback": "rolled back an expired writer",
        "rows.give": "granted row access",
        "rows.take": "revoked row access",
        "schedule.change": "changed a schedule",
        "schedule.delete": "deleted a schedule",
        "schedule.make": "created a schedule",
        "schedule.pause": "paused a schedule",
        "schedule.resume": "resumed a schedule",
        "schedule.run": "ran a schedule",
        "service.schedule": "scheduled a service",
        "sink.relaunch": "restarted a sink",
        "sink.replay": "replayed dead letters",
        "sink.reset": "reset the offsets of a sink",
        "sink.run": "ran a sink",
        "sink.start": "started a sink",
        "sink.stop": "stopped a sink",
        "stream.declare": "declared a stream",
        "table.create": "created the table",
        "table.label": "changed owner, tags or description",
        "table.move": "moved the table to another namespace",
        "table.register": "registered the table",
        "table.relocate": "changed the location of the table",
        "table.rename": "renamed the table",
        "table.unregister": "unregistered the table",
        "token.create": "created an API token",
        "token.revoke": "revoked an API token",
        "upload.create": "uploaded a file",
        "upload.delete": "deleted an uploaded file",
        "user.activate": "reactivated a user",
        "user.connect": "connected a user to single sign-on",
        "user.create": "created a user",
        "user.deactivate": "deactivated a user",
        "user.follow": "updated a user from single sign-on",
        "user.link": "created a password link",
        "user.password": "changed a password",
        "user.roles": "changed the roles of a user",
        "writers.pause": "paused the writers",
        "writers.resume": "resumed the writers",
    }
)
_FAMILIES: Final[Mapping[str, str]] = MappingProxyType(
    {"service": "requested", "operation": "requested", "sink": "changed a sink:"}
)
_PLAIN: Final = frozenset({"done", "requested", "succeeded", "created"})
"""Results that go without saying."""


def action_words(what: str) -> str:
    """Return the words that follow the name of the user; without any, the name of the action."""
    if (words := ACTIONS.get(what)) is not None:
        return words
    family, _, name = what.partition(".")
    return f"{_FAMILIES.get(family, family)} {name.replace('_', ' ')}".strip()


def is_result_marked(result: str) -> bool:
    """Check whether the result is news: a refusal or a failure."""
    return result not in _PLAIN
