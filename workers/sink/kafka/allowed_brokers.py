"""Brokers that the node's clients may reach, and the passwords that each may receive (threat T5).

Both are settings of the node. A request only names a broker and a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workers.connections import is_server
from workers.errors import InvalidInput
from workers.given_connection import CONNECTION_VARIABLE
from workers.options.option_values import parse_list

BROKERS_VARIABLE = "SLUICE_KAFKA_BROKERS"
CA_FOLDER_VARIABLE = "SLUICE_KAFKA_CA_FOLDER"
PASSWORD_PREFIX = "SLUICE_KAFKA_"  # noqa: S105 - begins the name of a variable
TLS = "SASL_SSL"
PLAINTEXT = "SASL_PLAINTEXT"

_ENTRY = re.compile(
    rf"(?:({PASSWORD_PREFIX}[A-Z0-9_]{{1,100}})=(?:({TLS}|{PLAINTEXT})://)?)?([^=/]+)"
)


@dataclass(frozen=True, slots=True)
class AllowedBrokers:
    """Value of `SLUICE_KAFKA_BROKERS`."""

    named: frozenset[str]
    """All allowed brokers. If it is empty, any broker may be reached."""
    bound: frozenset[tuple[str, str, str]]
    """Variable of a password, protocol and broker of each binding."""

    def check(self, servers: Iterable[str], variable: str, protocol: str) -> None:
        """Check that the settings allow these brokers, and bind the password to each of them for
        this protocol. `variable` is empty if no password is sent. Raises InvalidInput.
        """
        requested = list(servers)
        strangers = [server for server in requested if server.lower() not in self.named]
        if self.named and strangers:
            raise InvalidInput(
                f"the setting {BROKERS_VARIABLE} of this node does not name this broker",
                key="bootstrap.servers",
                given=strangers,
            )
        if not variable:
            return
        unbound = [
            server for server in requested if (variable, protocol, server.lower()) not in self.bound
        ]
        if unbound:
            scheme = "" if protocol == TLS else f"{protocol}://"
            entry = f"{variable}={scheme}{unbound[0]}"
            raise InvalidInput(
                f"the setting {BROKERS_VARIABLE} of this node does not bind this password to this "
                f"broker and protocol: ask its administrator to add {entry}",
                key="sasl.password.env",
                given=unbound,
            )


def parse_allowed_brokers(text: str) -> AllowedBrokers:
    """Parse the setting, a list of entries with commas between them.

    `host:port` is a broker without a password. `SLUICE_KAFKA_ORDERS=host:port` is a broker that
    receives the password in this variable over TLS;
    `SLUICE_KAFKA_ORDERS=SASL_PLAINTEXT://host:port` is one without TLS.

    Raises InvalidInput.
    """
    named, bound = set(), set()
    for entry in parse_list(text):
        parts = _ENTRY.fullmatch(entry)
        if parts is None or not is_server(parts[3]):
            raise InvalidInput(
                f"an entry of {BROKERS_VARIABLE} is host:port, {PASSWORD_PREFIX}X=host:port or "
                f"{PASSWORD_PREFIX}X={PLAINTEXT}://host:port",
                given=entry if "@" not in entry else "…",
            )
        variable, protocol, server = parts[1], parts[2] or TLS, parts[3].lower()
        named.add(server)
        if variable:
            bound.add((variable, protocol, server))
    return AllowedBrokers(frozenset(named), frozenset(bound))


def select_environment(variable: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a Kafka client needs: the settings above, one password, and the
    named connection of the process.
    """
    names = (BROKERS_VARIABLE, CA_FOLDER_VARIABLE, CONNECTION_VARIABLE, variable)
    return {name: environment[name] for name in names if name in environment}
