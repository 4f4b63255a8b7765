"""Write options that only a program may set, and no request that a node executes.

The author of an address decides which server gets a writer's token and which hosts this machine
connects to. A program that uses the library sets its own; in a node connections come from the
node's settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from workers.errors import InvalidInput
from workers.options.lock_options import URL as LOCK_URL
from workers.options.lock_options import URL_VARIABLE as LOCK_VARIABLE

MARKER_URL: Final = "sluice.marker.url"
MARKER_VARIABLE: Final = "SLUICE_MARKER_URL"
CONNECTIONS: Final[Mapping[str, str]] = {LOCK_URL: LOCK_VARIABLE, MARKER_URL: MARKER_VARIABLE}
"""The options, each with the variable that configures it on the node."""


def reject_connection_options(options: Mapping[str, str]) -> None:
    """Reject options by which a node would connect elsewhere. Raises InvalidInput, without the
    address: it may hold a password.
    """
    for key, variable in CONNECTIONS.items():
        if key in options:
            raise InvalidInput(
                "a node connects by its own settings only, so a request must not name an address: "
                f"leave this option out, and give the address to the node as {variable}",
                key=key,
            )
