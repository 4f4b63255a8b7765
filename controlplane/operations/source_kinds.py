"""What the control plane knows of each kind of source that a write may have. Files, topics and
databases are here; an app adds its own when it is ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.errors import InvalidRequest
from controlplane.operations.brokers import check_brokers
from controlplane.operations.connection_sources import (
    POSTGRESQL,
    check_connection_source,
    has_connection,
)
from controlplane.operations.descriptions.write import FILES
from workers.errors import InvalidInput
from workers.sink.bounded_read import parse_bounded_read

_SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True)
class SourceKind:
    name: str
    has_numbered_rounds: bool = False
    """Then any driver may write the rounds that another one has left."""
    restarts_max: int = 0
    """So often another writer takes the place of one that died."""
    derived: frozenset[str] = frozenset()
    """Keys of a job's source that its request did not have."""
    connection: str = ""
    """The kind of the named connection that it may have; empty where it has none."""
    settles: frozenset[str] = frozenset()
    """Keys that its driver settles, for itself and for whoever comes in its place."""


_KINDS = {name: SourceKind(name, connection="s3") for name in FILES}
_KINDS[POSTGRESQL] = SourceKind(POSTGRESQL, connection=POSTGRESQL)
_KINDS["kafka"] = SourceKind(
    "kafka", restarts_max=2, connection="kafka", settles=frozenset({"offsets"})
)
_KINDS["sql"] = SourceKind("sql", derived=frozenset({"tables"}))
_OTHER = SourceKind("")


def add_source_kind(kind: SourceKind) -> None:
    """From now on writes may be asked for with it."""
    _KINDS[kind.name] = kind


def source_kind(source: Mapping[str, Any]) -> SourceKind:
    """The kind of a source that was asked for at any time; of a kind that is not known any more,
    one without rounds and restarts.
    """
    return _KINDS.get(str(source.get("kind")), _OTHER)


def check_source_kind(source: Mapping[str, Any], namespace: str = "") -> None:
    """Refuse, as InvalidRequest, a kind that no driver would open, and what is not named as it
    would be read, or by a connection that tables of the namespace may not use. What offsets of a
    topic are settled is not for a request to say.
    """
    kind = source.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        shown = repr(kind)[:_SHOWN_CHARS]
        raise InvalidRequest("source kind is unknown", kind=shown, known=sorted(_KINDS))
    if kind == "kafka":
        _check_topic(source, namespace)
    elif has_connection(source):
        check_connection_source(source, namespace)


def _check_topic(source: Mapping[str, Any], namespace: str) -> None:
    try:
        read = parse_bounded_read(source)
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
    check_brokers(read.config, namespace)
