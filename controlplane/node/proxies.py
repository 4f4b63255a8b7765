"""Whose word about a caller's address counts: the proxies that SLUICE_TRUSTED_PROXIES names.

Without one nobody's does. A header that anybody can send would else choose the address by which
logins are counted.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from controlplane.node.identity import BadSetting

VARIABLE = "SLUICE_TRUSTED_PROXIES"


def trusted_proxies(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Addresses and networks. Raises BadSetting for anything else, and for all at once."""
    words = [word.strip() for word in environ.get(VARIABLE, "").split(",") if word.strip()]
    for word in words:
        try:
            network = ipaddress.ip_network(word)
        except ValueError as error:
            raise BadSetting(
                f"{VARIABLE} must be addresses or networks with commas between, not {word!r}"
            ) from error
        if network.prefixlen == 0:
            raise BadSetting(
                f"{VARIABLE} must not contain {word!r}, which trusts all clients: list proxies"
            )
    return tuple(words)


def proxy_options(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Options of uvicorn, which would else believe everything that comes from this machine."""
    if proxies := trusted_proxies(environ):
        return ("--proxy-headers", "--forwarded-allow-ips", ",".join(proxies))
    return ("--no-proxy-headers",)
