"""Write options that belong to a program, and to no request that a node carries out.

Who names an address decides to whom a writer shows its token and whom this machine calls. A program
that uses the library names its own; in a node connections come from the node's settings.
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
"""Each with the variable by which the node is told instead."""


def refuse_connections(options: Mapping[str, str]) -> None:
    """Refuse options by which a node would connect elsewhere. Raises InvalidInput, without the
    address: it may hold a password.
    """
    for key, variable in CONNECTIONS.items():
        if key in options:
            raise InvalidInput(
                "a node connects where its own settings say, so a request names no address: leave "
                f"this option out, and give the address to the node as {variable}",
                key=key,
            )
