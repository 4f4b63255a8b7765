"""The choice of a named connection in a form that also takes a broker's address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django import forms

from controlplane.connections.queries import usable_connections
from controlplane.operations.descriptions.write import BROKER

_ADDRESS_CHARS: Final = 60


_WITHOUT: Final = {
    "kafka": "none (broker below)",
    "s3": "none (file in a source root)",
    "postgresql": "choose a connection",
}
"""The empty choice of the field, by kind."""


def connection_field(namespace: str, kind: str = "kafka") -> forms.ChoiceField:
    """Return a choice of the connections that tables of the namespace may use; none if it is empty.
    A database is reached by a connection alone.
    """
    names = [
        (name, f"{name} · {address[:_ADDRESS_CHARS]}")
        for name, address in usable_connections(kind, namespace)
    ]
    return forms.ChoiceField(
        label="Connection",
        required=kind == "postgresql",
        choices=[("", _WITHOUT[kind]), *names],
        error_messages={"required": "Choose a connection. Admins grant connections to namespaces."},
    )


def check_broker(form: forms.Form, words: Mapping[str, Any], others: Sequence[str]) -> str:
    """Return the address of the broker of a form that was sent; empty where a connection is chosen,
    with which neither an address nor one of `others` may come.
    """
    address = str(words.get("bootstrap") or "")
    if not words.get("connection"):
        if not address and "bootstrap" not in form.errors:
            form.add_error("bootstrap", "Choose a connection, or enter the broker as host:port.")
        return address
    own = [address] if address not in ("", BROKER) else []
    if own or any(words.get(name) for name in others):
        form.add_error(
            "connection", "A connection includes broker and credentials: leave those fields empty."
        )
    return ""
