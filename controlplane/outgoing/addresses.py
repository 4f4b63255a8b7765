"""Where an address that somebody gave may lead.

A name is resolved once, every address that it has is judged, and whoever connects takes one of
these: a name that means something else a moment later leads nowhere else. What is not on the
public Internet is refused, but for receivers that the node's operator listed.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from controlplane.errors import InvalidRequest

URL_CHARS_MAX: Final = 2_000
_HTTPS_PORT: Final = 443
_PORTS: Final = {"https": _HTTPS_PORT, "http": 80}
_SPELLED: Final = re.compile(r"[!-~]+")
_NUMBER: Final = re.compile(r"(0x[0-9a-f]*|[0-9]+)")
"""A host whose last label looks like one is an IPv4 address to some resolver."""
_NAME: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_PARTS: Final = "\\@"

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver = Callable[[str, int], list[str]]
"""Every address of a name, as text. Raises OSError for a name that has none."""

_NEVER: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(text)
    for text in (
        *("0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4", "::/128", "fe80::/10"),
        *("ff00::/8", "168.63.129.16/32", "100.100.100.200/32", "fd00:ec2::254/128"),
    )
)
"""What hands out a machine's credentials (link-local, and clouds' own addresses), and what is no
single machine: no list opens these.
"""
_TUNNELS: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(text) for text in ("::/96", "::ffff:0:0/96", "2001::/32", "2002::/16")
)
"""IPv6 addresses that mean an IPv4 address: a second spelling, which nobody needs."""
_SPECIAL: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(text)
    for text in (
        *("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2001:db8::/32", "3fff::/20"),
        *("64:ff9b:1::/48", "100::/64", "5f00::/16", "fec0::/10"),
    )
)
"""Registered for something else than machines outside, which not every `is_global` knows."""
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


class AddressRefused(InvalidRequest):
    """Nothing may be sent there. The sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Receivers inside, which the operator listed in SLUICE_OUTGOING_ALLOWED."""

    hosts: frozenset[tuple[str, int]] = field(default_factory=frozenset)
    networks: tuple[Network, ...] = ()

    def has_host(self, host: str, port: int) -> bool:
        return (host, port) in self.hosts

    def has_address(self, address: Ip) -> bool:
        return any(address in network for network in self.networks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A checked address: connect to one of `addresses` at `port`, and to nothing else."""

    is_tls: bool
    host: str
    """The name, for the certificate and the Host header."""
    port: int
    addresses: tuple[str, ...]
    path: str
    """With the query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    scheme: str
    host: str
    port: int
    path: str


def read_allowed(text: str) -> Allowed:
    """The addresses and networks of a list of `host:port` and networks such as `10.1.0.0/16`,
    separated by commas. Raises ValueError.
    """
    hosts: set[tuple[str, int]] = set()
    networks: list[Network] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if "/" in part:
            networks.append(ipaddress.ip_network(part))
            continue
        host, _, port = part.rpartition(":")
        if not host or not port.isdecimal() or not 1 <= int(port) <= 65_535:
            raise ValueError(f"expected host:port or a network, got {part[:80]}")
        hosts.add((host.lower().strip("[]"), int(port)))
    return Allowed(hosts=frozenset(hosts), networks=tuple(networks))


def system_addresses(host: str, port: int) -> list[str]:
    """As the system resolves it, the preferred address first. Raises OSError."""
    rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in rows))


def refuse_spelling(url: str, allowed: Allowed) -> str:
    """The host of a URL that may be kept; nothing is resolved. Raises AddressRefused."""
    return _place(url, allowed).host


def resolved_target(url: str, allowed: Allowed, resolve: Resolver) -> Target:
    """Resolves the name, once. Raises AddressRefused, and OSError for a name without an address."""
    place = _place(url, allowed)
    texts = resolve(place.host, place.port)
    if not texts:
        raise OSError(f"the name has no address: {place.host}")
    is_listed = allowed.has_host(place.host, place.port)
    for text in texts:
        _refuse_address(place, text, allowed, is_listed=is_listed)
    return Target(
        is_tls=place.scheme == "https",
        host=place.host,
        port=place.port,
        addresses=tuple(texts),
        path=place.path,
    )


def _place(url: str, allowed: Allowed) -> _Place:
    if len(url) > URL_CHARS_MAX or not _SPELLED.fullmatch(url):
        raise AddressRefused(
            f"an address must have at most {URL_CHARS_MAX} printable ASCII characters"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise AddressRefused("invalid address: write https://host/path") from error
    if parts.scheme not in _PORTS or not parts.hostname:
        raise AddressRefused("write the address as https://host/path")
    if any(mark in parts.netloc for mark in _PARTS):
        raise AddressRefused("an address must not contain a user name or a backslash")
    host = parts.hostname.rstrip(".")
    _refuse_host(host)
    port = _PORTS[parts.scheme] if port is None else port
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    place = _Place(scheme=parts.scheme, host=host, port=port, path=path)
    is_public_place = place.scheme == "https" and port == _HTTPS_PORT
    if not (is_public_place or allowed.has_host(host, port) or allowed.networks):
        raise AddressRefused(
            "write https:// and no other port than 443; receivers inside are listed by the node's "
            "operator in SLUICE_OUTGOING_ALLOWED",
            host=host,
            port=port,
        )
    return place


def _refuse_host(host: str) -> None:
    """A name, or an address in its one usual spelling: `127.1`, `0x7f.1` and `2130706433` are
    addresses to some resolvers and names to others.
    """
    if ":" in host or _NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            ipaddress.ip_address(host)
        except ValueError as error:
            raise AddressRefused("write an IP address as 192.0.2.1 or [2001:db8::1]") from error
    elif len(host) > 253 or not _NAME.fullmatch(host):
        raise AddressRefused("invalid host name", host=host[:80])


def _refuse_address(place: _Place, text: str, allowed: Allowed, *, is_listed: bool) -> None:
    address = ipaddress.ip_address(text.partition("%")[0])
    meant = _meant(address)
    if any(meant in network for network in _NEVER):
        raise AddressRefused("the host is a link-local, metadata or group address", host=place.host)
    if is_listed or allowed.has_address(address):
        return
    if place.scheme != "https" or place.port != _HTTPS_PORT:
        raise AddressRefused(
            "only receivers in SLUICE_OUTGOING_ALLOWED may have another port than https's",
            host=place.host,
        )
    is_tunnel = any(address in network for network in _TUNNELS)
    is_special = any(meant in network for network in _SPECIAL)
    if is_tunnel or is_special or not meant.is_global or meant.is_multicast:
        raise AddressRefused(
            "the host is not on the public Internet; a receiver inside is listed by the node's "
            "operator in SLUICE_OUTGOING_ALLOWED",
            host=place.host,
        )


def _meant(address: Ip) -> Ip:
    """Where a packet to it arrives."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _NAT64 or (address in _TUNNELS[0] and int(address) > 1):
            return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address
