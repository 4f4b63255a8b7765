"""The settings of each kind of connection, as forms show them. The engine checks the values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from workers.connections import (
    SASL_MECHANISMS,
    SECRETS,
    SECURITY_PROTOCOLS,
    SETTINGS,
    SSL_MODES,
)

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {"kafka": "Kafka", "s3": "S3 bucket", "postgresql": "PostgreSQL"}
)
_CERTIFICATE: Final = "PEM of the authority that signed it; the system's when empty"


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    label: str
    hint: str = ""
    choices: tuple[str, ...] = ()
    """Of which the first one is what an absent setting means."""
    is_secret: bool = False
    is_long: bool = False
    """Several lines."""


_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "bootstrap_servers": ("Brokers", "host:port, several with commas"),
    "security_protocol": ("Protocol", ""),
    "sasl_mechanism": ("SASL mechanism", ""),
    "username": ("User", ""),
    "password": ("Password", ""),
    "ca_certificate": ("Certificate authority", _CERTIFICATE),
    "bucket": ("Bucket", ""),
    "prefix": ("Prefix", "only files below it are read; the whole bucket when empty"),
    "endpoint": ("Endpoint", "https://host:port; Amazon's own when empty"),
    "region": ("Region", ""),
    "access_key_id": ("Access key id", "requests are not signed when empty"),
    "secret_access_key": ("Secret access key", ""),
    "session_token": ("Session token", "of temporary credentials only"),
    "allow_http": ("Endpoint may be http://, in clear text", ""),
    "host": ("Host", "a name or an IP address"),
    "port": ("Port", "5432 when empty"),
    "database": ("Database", ""),
    "sslmode": ("TLS", "verify-full checks the certificate and the host's name"),
}
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "security_protocol": SECURITY_PROTOCOLS,
    "sasl_mechanism": ("", *SASL_MECHANISMS),
    "sslmode": SSL_MODES,
    "allow_http": ("false", "true"),
}


def get_settings(kind: str) -> list[Setting]:
    """Return the settings of a kind in the order of its form; none of an unknown kind."""
    return [
        Setting(
            name=name,
            label=_WORDS[name][0],
            hint=_WORDS[name][1],
            choices=_CHOICES.get(name, ()),
            is_secret=name in SECRETS[kind],
            is_long=name == "ca_certificate",
        )
        for name in SETTINGS.get(kind, ())
    ]
