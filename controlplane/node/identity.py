"""Which node this is and where it listens, written by `up` so that every later command finds the
same node.

The sockets live in a short private folder of their own: the system cuts a socket path above 107
bytes silently.
"""

from __future__ import annotations

import ipaddress
import json
import os
import stat
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from controlplane.node.secrets_file import write_privately
from workers.processes import LOOPBACK, get_address

SOCKET_PATH_BYTES_MAX = 107
_LONGEST_SOCKET_NAME = "supervisor.sock.4194304"
"""Supervisor binds its socket under its own name with the pid behind it, then renames."""


@dataclass(frozen=True, slots=True)
class Identity:
    node: str
    """In the environment of every process of this node, so that `down` finds also those that nobody
    supervises.
    """
    web_port: int
    spark_port: int
    marker_port: int
    sockets: str
    redis_url: str = ""
    """Another's Redis, when SLUICE_REDIS_URL named one at `up`; else this node starts its own."""
    spark_remote: str = ""
    """Another's Spark Connect server, when SLUICE_SPARK_REMOTE named one at `up`."""
    marker_url: str = ""
    """Another's marker server, when SLUICE_MARKER_URL named one at `up`."""
    web_host: str = LOOPBACK
    """The address that the web process listens on."""
    marker_host: str = LOOPBACK
    """The address that the node's own marker server listens on."""

    @property
    def supervisor_socket(self) -> Path:
        return Path(self.sockets) / "supervisor.sock"

    @property
    def redis_socket(self) -> Path:
        return Path(self.sockets) / "redis.sock"

    @property
    def own_redis_url(self) -> str:
        """The address of the server that `up` starts if SLUICE_REDIS_URL names no other."""
        return f"unix://{self.redis_socket}"

    @property
    def url(self) -> str:
        """The web process as this machine reaches it, with a slash at the end."""
        return f"{get_address(self.web_host, self.web_port)}/"

    @property
    def own_marker_url(self) -> str:
        """The marker server that this node starts, without a slash at the end."""
        return get_address(self.marker_host, self.marker_port)


PORTS = {
    "web_port": ("SLUICE_WEB_PORT", 8000),
    "spark_port": ("SLUICE_SPARK_PORT", 15002),
    "marker_port": ("SLUICE_MARKER_PORT", 8766),
}


class BadSetting(Exception):
    """A variable of the environment cannot be used; the text says which and why, in one line."""


def read_identity(path: Path) -> Identity | None:
    """None when no node was ever started here."""
    return Identity(**json.loads(path.read_text())) if path.is_file() else None


def choose_identity(environ: Mapping[str, str], earlier: Identity | None) -> Identity:
    """The ports that the environment asks for, and a socket folder that exists and is private.

    Raises BadSetting when a setting cannot be used.
    """
    fresh = build_identity(environ, node=earlier.node if earlier else uuid.uuid4().hex)
    is_kept = earlier is not None and is_private(Path(earlier.sockets))
    return replace(fresh, sockets=earlier.sockets if earlier and is_kept else socket_folder())


def build_identity(environ: Mapping[str, str], *, node: str, sockets: str = "") -> Identity:
    """Return the ports, hosts and other servers that the environment names.

    Raises BadSetting when one of them cannot be used.
    """
    ports = ports_from(environ)
    return Identity(
        node=node,
        sockets=sockets,
        web_port=ports["web_port"],
        spark_port=ports["spark_port"],
        marker_port=ports["marker_port"],
        redis_url=environ.get("SLUICE_REDIS_URL", ""),
        spark_remote=environ.get("SLUICE_SPARK_REMOTE", ""),
        marker_url=_marker_url(environ),
        web_host=_web_host(environ),
        marker_host=_host(environ, "SLUICE_MARKER_HOST"),
    )


def ports_from(environ: Mapping[str, str]) -> dict[str, int]:
    """By field of Identity. Raises BadSetting when one is no port or two are the same."""
    ports = {name: _port(environ, *setting) for name, setting in PORTS.items()}
    if len(set(ports.values())) < len(ports):
        variables = ", ".join(f"{PORTS[name][0]}={port}" for name, port in ports.items())
        raise BadSetting(f"ports must be different: {variables}")
    return ports


def write_identity(path: Path, identity: Identity) -> None:
    write_privately(path, json.dumps(asdict(identity), indent=2) + "\n")


def socket_folder(base: str | None = None) -> str:
    """A new folder that only this user may enter, short enough for every socket in it."""
    base = base or tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="sluice-", dir=base if _is_short(base) else "/tmp")  # noqa: S108


def is_private(folder: Path) -> bool:
    """Whether it is a folder of this user's that nobody else may enter."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & 0o077
    )


def socket_path_bytes(folder: str) -> int:
    """How long the longest socket path in this folder gets."""
    return len(os.fsencode(f"{folder}/{_LONGEST_SOCKET_NAME}"))


def _is_short(base: str) -> bool:
    return socket_path_bytes(f"{base}/sluice-12345678") <= SOCKET_PATH_BYTES_MAX


def _marker_url(environ: Mapping[str, str]) -> str:
    url = (environ.get("SLUICE_MARKER_URL") or "").rstrip("/")
    try:
        parts = urlsplit(url)
        is_valid = bool(parts.hostname and parts.port and "@" not in parts.netloc)
    except ValueError:  # The port is not a number, or a bracket is missing.
        is_valid = False
    else:
        is_valid = is_valid and url == f"http://{parts.netloc}"
    if url and not is_valid:
        raise BadSetting(f"SLUICE_MARKER_URL must be http://<host>:<port>, not {url!r}")
    return url


def _web_host(environ: Mapping[str, str]) -> str:
    host = _host(environ, "SLUICE_WEB_HOST")
    names = [name.strip() for name in (environ.get("SLUICE_ALLOWED_HOSTS") or "").split(",")]
    if not ipaddress.ip_address(host).is_loopback and ("*" in names or not any(names)):
        raise BadSetting(
            f"SLUICE_WEB_HOST={host} serves other machines: set SLUICE_ALLOWED_HOSTS to the names "
            "under which they call this node, separated by commas and without *"
        )
    return host


def _host(environ: Mapping[str, str], variable: str) -> str:
    text = environ.get(variable) or LOOPBACK
    try:
        ipaddress.ip_address(text)
    except ValueError as error:
        raise BadSetting(
            f"{variable} must be an IP address, such as 127.0.0.1 or 0.0.0.0, not {text!r}"
        ) from error
    return text


def _port(environ: Mapping[str, str], variable: str, default: int) -> int:
    text = environ.get(variable) or str(default)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise BadSetting(f"{variable} must be a port between 1 and 65535, not {text!r}")
    return int(text)
