"""The messages that the control plane sends to workers: plain JSON out, a checked value back in.

Standard library only, so that a web process builds one without loading the engine. `from_message`
trusts no message: an unknown key, a missing key or a value of another type raises InvalidInput
before anything is touched.
"""

from __future__ import annotations

import posixpath
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from workers.errors import InvalidInput

JsonScalar = str | int | float | bool | None
Source = Mapping[str, JsonScalar]

OPERATIONS = (
    "upsert",
    "insert",
    "bulk_insert",
    "delete",
    "insert_overwrite",
    "insert_overwrite_table",
)
"""Those that come with rows."""
APPLICATIONS = ("own", "connect")
"""The applications of a sink. Its tasks never end, so in a shared server they would keep its slots
from others.
"""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}\Z")
_INSTANT = re.compile(r"[0-9]{17}\Z")
_TEXT_CHARS_MAX = 4_000
_ENTRIES_MAX = 200


class _Message:
    """The base of all jobs: a dataclass that is a JSON object in transit."""

    __slots__ = ()

    def to_message(self) -> dict[str, Any]:
        values = ((member.name, getattr(self, member.name)) for member in fields(self))  # type: ignore[arg-type]
        return {
            name: dict(value) if isinstance(value, Mapping) else value for name, value in values
        }

    @classmethod
    def from_message(cls, message: object) -> Self:
        """Parse and check the job in such a JSON object. Raises InvalidInput."""
        if not isinstance(message, dict) or not all(isinstance(key, str) for key in message):
            raise InvalidInput("message is not a JSON object", type=type(message).__name__)
        names = {member.name for member in fields(cls)}  # type: ignore[arg-type]
        if unknown := sorted(set(message) - names):
            unknown_keys = [_to_text(key) for key in unknown[:10]]
            raise InvalidInput("message has unknown keys", keys=unknown_keys)
        try:
            return cls(**message)
        except TypeError as error:
            raise InvalidInput(
                "message lacks a key", known=sorted(names), got=sorted(message)
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun(_Message):
    """A job that a worker begins, not one that ends or undoes another."""

    asks_leave: bool = False
    """Set on its way: a person asked for it, so its worker asks whether that person still may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteJob(_Begun):
    """Write one source into one table, in a process of its own, under one operation."""

    TASK: ClassVar[str] = "workers.tasks.launch_write"

    operation_id: str
    table: str
    """The table's absolute location."""
    source: Source
    """The source; `kind` selects it, and the rest belongs to that source. The driver checks
    both.
    """
    operation: str = "upsert"
    replaces: str = ""
    """Digest of the only files that it may overwrite (`write.replaced`); empty for any."""
    stream: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    session_id: str
    user_id: str = "sluice"
    run_dir: str
    report_url: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.operation_id, "operation_id")
        _check_location(self.table, "table")
        _check_source(self.source)
        if self.operation not in OPERATIONS:
            raise InvalidInput("operation is not supported", operation=_to_text(self.operation))
        _check_name(self.replaces or "any", "replaces")
        if self.stream is not None:
            _check_name(self.stream, "stream")
        _check_texts(self.options, "options")
        _check_texts(self.spark_conf, "spark_conf")
        _check_session(self.session_id)
        _check_name(self.user_id, "user_id")
        _check_directory(self.run_dir, "run_dir")
        _check_report_url(self.report_url)
        _check_leave(self.asks_leave)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkJob(_Begun):
    """Feed one table from a Kafka topic until a user stops it, in a process of its own."""

    TASK: ClassVar[str] = "workers.tasks.launch_sink"

    operation_id: str
    table: str
    """The table's absolute location."""
    sink_options: Mapping[str, str]
    """Options of the sink (`workers.sink.config`), of writes and of services. A password is named
    by its environment variable.
    """
    application: str = APPLICATIONS[0]
    """Whether the sink is a Spark application of its own or a session of the node's server."""
    wanted_at_ms: int = 0
    """The time of the user's request: a stop that was requested since then applies to it."""
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    session_id: str
    user_id: str = "sluice"
    run_dir: str
    report_url: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.operation_id, "operation_id")
        _check_location(self.table, "table")
        _check_texts(self.sink_options, "sink_options")
        if self.application not in APPLICATIONS:
            raise InvalidInput("no such Spark application", application=_to_text(self.application))
        if type(self.wanted_at_ms) is not int or self.wanted_at_ms < 0:
            raise InvalidInput("not a time in milliseconds", field="wanted_at_ms")
        _check_texts(self.spark_conf, "spark_conf")
        _check_session(self.session_id)
        _check_name(self.user_id, "user_id")
        _check_directory(self.run_dir, "run_dir")
        _check_report_url(self.report_url)
        _check_leave(self.asks_leave)


DriverJob = WriteJob | SinkJob
"""What a driver program carries out."""


def driver_job(message: object) -> DriverJob:
    """Parse the job of a driver, a write's or a sink's, from its message. Raises InvalidInput."""
    is_sink = isinstance(message, dict) and "sink_options" in message
    return SinkJob.from_message(message) if is_sink else WriteJob.from_message(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackJob(_Begun):
    """Undo one instant exactly by the plan with this hash; without a hash only while it is pending,
    with any files that its writer has put down by then.
    """

    TASK: ClassVar[str] = "workers.tasks.rollback"

    operation_id: str
    table: str
    instant: str
    plan_hash: str
    reason: str
    by: str
    attempt: int = 0
    """How often the same job was sent before."""
    run_dir: str | None = None
    """Where its worker shows that it is at it."""
    report_url: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.operation_id, "operation_id")
        _check_location(self.table, "table")
        _check_instant(self.instant)
        if self.plan_hash:
            _check_text(self.plan_hash, "plan_hash")
        _check_text(self.reason, "reason")
        _check_text(self.by, "by")
        _check_attempt(self.attempt)
        if self.run_dir is not None:
            _check_directory(self.run_dir, "run_dir")
        _check_report_url(self.report_url)
        _check_leave(self.asks_leave)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceJob(_Begun):
    """Run one table service exactly by the plan with this hash."""

    TASK: ClassVar[str] = "workers.tasks.run_service"

    operation_id: str
    table: str
    service: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    plan_hash: str | None = None
    """None without a reviewed plan: a schedule started it."""
    reason: str = ""
    by: str
    attempt: int = 0
    """How often the same job was sent before."""
    run_dir: str | None = None
    """Where its worker shows that it is at it, and finds that it was cancelled."""
    report_url: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.operation_id, "operation_id")
        _check_location(self.table, "table")
        _check_name(self.service, "service")
        _check_attempt(self.attempt)
        _check_texts(self.parameters, "parameters")
        if self.plan_hash is not None:
            _check_text(self.plan_hash, "plan_hash")
        if self.reason:
            _check_text(self.reason, "reason")
        if self.run_dir is not None:
            _check_directory(self.run_dir, "run_dir")
        _check_text(self.by, "by")
        _check_report_url(self.report_url)
        _check_leave(self.asks_leave)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayJob(_Begun):
    """Send dead letters of a sink to their topic again, each exactly once."""

    TASK: ClassVar[str] = "workers.tasks.replay_letters"

    operation_id: str
    table: str
    sink_options: Mapping[str, str]
    """The options of the sink alone, from its launch."""
    directory: str
    """The directory of the dead letters."""
    instant: str = ""
    """Those that this commit left out; all that there are when empty."""
    letters: tuple[str, ...] | list[str] = ()
    """`partition:offset`; all of them when empty."""
    cause: str = ""
    by: str
    attempt: int = 0
    """How often the same job was sent before."""
    run_dir: str | None = None
    """Where its worker shows that it is at it."""
    report_url: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.operation_id, "operation_id")
        _check_location(self.table, "table")
        _check_texts(self.sink_options, "sink_options")
        _check_location(self.directory, "directory")
        if self.instant:
            _check_instant(self.instant)
        if not isinstance(self.letters, list | tuple):
            raise InvalidInput(
                "`letters` must be a list of dead letters", given=_to_text(self.letters)
            )
        for letter in self.letters:
            _check_name(letter, "letters")
        if self.cause:
            _check_text(self.cause, "cause")
        _check_attempt(self.attempt)
        if self.run_dir is not None:
            _check_directory(self.run_dir, "run_dir")
        _check_text(self.by, "by")
        _check_report_url(self.report_url)
        _check_leave(self.asks_leave)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob(_Message):
    """End the driver of one write and its tasks, then settle what it left on the table."""

    TASK: ClassVar[str] = "workers.tasks.cancel_write"

    operation_id: str
    table: str
    session_id: str
    user_id: str = "sluice"
    pid: int | None = None
    """The driver's process, also the id of its group; None when it never reported one."""
    run_dir: str
    reason: str = "cancelled"
    by: str = "control plane"
    report_url: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.operation_id, "operation_id")
        _check_location(self.table, "table")
        _check_session(self.session_id)
        _check_name(self.user_id, "user_id")
        _check_pid(self.pid)
        _check_directory(self.run_dir, "run_dir")
        _check_text(self.reason, "reason")
        _check_text(self.by, "by")
        _check_report_url(self.report_url)


def _to_text(value: object) -> str:
    return repr(value)[:80]


def _check_attempt(value: object) -> None:
    if type(value) is not int or not 0 <= value < 1000:
        raise InvalidInput("attempt must be a number below 1000", attempt=_to_text(value))


def _check_text(value: object, name: str) -> None:
    if not isinstance(value, str) or not value or len(value) > _TEXT_CHARS_MAX or "\x00" in value:
        raise InvalidInput(
            "value is not a text of sensible length", name=name, value=_to_text(value)
        )


def _check_name(value: object, name: str) -> None:
    if not isinstance(value, str) or not _NAME.match(value):
        raise InvalidInput("value is not a plain name", name=name, value=_to_text(value))


def _check_instant(value: object) -> None:
    if not isinstance(value, str) or not _INSTANT.match(value):
        raise InvalidInput("instant is not 17 digits", instant=_to_text(value))


def _check_directory(value: object, name: str) -> None:
    _check_text(value, name)
    assert isinstance(value, str)
    if not value.startswith("/") or posixpath.normpath(value) != value:
        raise InvalidInput("path is not absolute and normal", name=name, value=_to_text(value))


def _check_location(value: object, name: str) -> None:
    """Check for an absolute path or a URL; the worker checks that it is under a root."""
    _check_text(value, name)
    assert isinstance(value, str)
    if "://" not in value:
        _check_directory(value, name)
        return
    parts = urlsplit(value)
    if not parts.scheme.isalnum() or parts.query or parts.fragment or ".." in parts.path.split("/"):
        raise InvalidInput("location is not a plain URL", name=name, value=_to_text(value))


def _check_source(value: object) -> None:
    if not isinstance(value, Mapping) or len(value) > _ENTRIES_MAX:
        raise InvalidInput("source is not a small JSON object", value=_to_text(value))
    for key, entry in value.items():
        if not isinstance(key, str) or not isinstance(entry, str | int | float | bool | None):
            raise InvalidInput("source holds more than plain values", key=_to_text(key))
    _check_name(value.get("kind"), "kind")


def _check_texts(value: object, name: str) -> None:
    if not isinstance(value, Mapping) or len(value) > _ENTRIES_MAX:
        raise InvalidInput("value is not a small JSON object", name=name, value=_to_text(value))
    for key, entry in value.items():
        _check_text(key, name)
        if not isinstance(entry, str) or len(entry) > _TEXT_CHARS_MAX:
            raise InvalidInput("value of a setting is not a text", name=name, key=_to_text(key))


def _check_session(value: object) -> None:
    try:
        plain = isinstance(value, str) and str(uuid.UUID(value)) == value
    except ValueError:
        plain = False
    if not plain:
        raise InvalidInput("session id is not a UUID in lower case", session_id=_to_text(value))


def _check_pid(value: object) -> None:
    """Check a pid: process 1 and group 0 are never ours to signal."""
    if value is not None and (type(value) is not int or not 1 < value < 2**31):
        raise InvalidInput("pid is not a process id", pid=_to_text(value))


def _check_report_url(value: object) -> None:
    if value is None:
        return
    _check_text(value, "report_url")
    assert isinstance(value, str)
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise InvalidInput("report URL is not plain HTTP", report_url=_to_text(value))


def _check_leave(value: object) -> None:
    if type(value) is not bool:
        raise InvalidInput("asks_leave is true or false", asks_leave=_to_text(value))
