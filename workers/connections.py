"""Named connections: the address and the credentials of a Kafka cluster, a bucket or a PostgreSQL
database.

An admin stores the settings, a request names the connection only. Each class checks its own values
and connects to nothing. Secrets are in no `repr`, no error and no `shown_address`.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from workers.errors import InvalidInput
from workers.locations import bucket_place

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""Not GSSAPI, which runs a program, and not OAUTHBEARER, which calls an address."""
SSL_MODES: Final = ("verify-full", "verify-ca", "require", "disable")
"""Not `allow` and `prefer`: they fall back to clear text."""
SERVER: Final = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:]{2,45}\]):([0-9]{1,5})")

_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}")
_REGION = re.compile(r"[A-Za-z0-9-]{0,64}")
_SERVERS_MAX: Final = 64
_TEXT_CHARS_MAX: Final = 255
_SECRET_CHARS_MAX: Final = 4_000
_CERTIFICATE_CHARS_MAX: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConnection:
    """A Kafka cluster."""

    KIND: ClassVar[str] = "kafka"
    SECRETS: ClassVar[tuple[str, ...]] = ("password",)

    bootstrap_servers: str
    """`host:port`, with commas between several."""
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    ca_certificate: str = field(default="", repr=False)
    """PEM; empty for the certificate authorities of the system."""

    def __post_init__(self) -> None:
        servers = [server.strip() for server in self.bootstrap_servers.split(",")]
        if len(servers) > _SERVERS_MAX or not all(map(is_server, servers)):
            # The value is not shown: before an @ there may be a password.
            raise InvalidInput(
                f"write the brokers as host:port,host:port, {_SERVERS_MAX} at most",
                key="bootstrap_servers",
            )
        object.__setattr__(self, "bootstrap_servers", ",".join(servers))
        _check_choice("security_protocol", self.security_protocol, SECURITY_PROTOCOLS)
        _check_text("username", self.username)
        _check_secret("password", self.password)
        _check_certificate(self.ca_certificate)
        needed = ("sasl_mechanism", "username", "password")
        if self.security_protocol.startswith("SASL_"):
            _check_choice("sasl_mechanism", self.sasl_mechanism, SASL_MECHANISMS)
            _check_present(self, needed, f"security_protocol {self.security_protocol} needs it")
        else:
            _check_absent(self, needed, f"security_protocol {self.security_protocol} ignores it")
        if not self.security_protocol.endswith("SSL"):
            _check_absent(self, ("ca_certificate",), "this security_protocol does not use TLS")

    @property
    def shown_address(self) -> str:
        """The brokers."""
        return self.bootstrap_servers


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketConnection:
    """A bucket of S3, or of another store with its API, and the prefix that may be read."""

    KIND: ClassVar[str] = "s3"
    SECRETS: ClassVar[tuple[str, ...]] = ("secret_access_key", "session_token")

    bucket: str
    prefix: str = ""
    """Without a slash at either end; empty for the whole bucket."""
    endpoint: str = ""
    """Empty for AWS's own."""
    region: str = ""
    access_key_id: str = ""
    """Empty for a public bucket: requests are not signed then, also not by keys of the node."""
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    allow_http: bool = False
    """Whether an endpoint that is not this machine may be `http://`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", self.prefix.strip("/"))
        try:
            bucket_place(f"s3://{self.bucket}")
        except InvalidInput as error:
            raise InvalidInput("invalid name of a bucket", key="bucket") from error
        if "/" in self.bucket:
            raise InvalidInput("write what follows the bucket's name as the prefix", key="bucket")
        try:
            bucket_place(self.location)
        except InvalidInput as error:
            raise InvalidInput(error.message, key="prefix") from error
        if self.endpoint:
            try:
                endpoint = normalize_endpoint(self.endpoint, allows_http=self.allow_http)
            except InvalidInput as error:
                raise InvalidInput(error.message, key="endpoint") from error
            object.__setattr__(self, "endpoint", endpoint)
        if not _REGION.fullmatch(self.region):
            raise InvalidInput("invalid name of a region", key="region")
        _check_text("access_key_id", self.access_key_id)
        _check_secret("secret_access_key", self.secret_access_key)
        _check_secret("session_token", self.session_token)
        if self.access_key_id:
            _check_present(self, ("secret_access_key",), "an access_key_id needs it")
        else:
            _check_absent(self, self.SECRETS, "it needs an access_key_id")

    @property
    def location(self) -> str:
        """`s3://bucket/prefix`, without a slash at the end."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def shown_address(self) -> str:
        """The location, and the endpoint unless it is AWS's own."""
        return f"{self.location} at {self.endpoint}" if self.endpoint else self.location


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseConnection:
    """A PostgreSQL database."""

    KIND: ClassVar[str] = "postgresql"
    SECRETS: ClassVar[tuple[str, ...]] = ("password",)

    host: str
    """A name or an address; never a socket's path, behind which the node's own database may be."""
    port: int = 5432
    database: str
    username: str
    password: str = field(default="", repr=False)
    sslmode: str = SSL_MODES[0]
    ca_certificate: str = field(default="", repr=False)
    """PEM; empty for the certificate authorities of the system."""

    def __post_init__(self) -> None:
        if not (_HOST.fullmatch(self.host) or _is_address(self.host)):
            raise InvalidInput("write the host as a name or an IP address", key="host")
        if not 1 <= self.port <= 65_535:
            raise InvalidInput("the port must be 1 to 65535", key="port")
        _check_text("database", self.database)
        _check_text("username", self.username)
        _check_present(self, ("database", "username"), "a database connection needs it")
        _check_secret("password", self.password)
        _check_choice("sslmode", self.sslmode, SSL_MODES)
        _check_certificate(self.ca_certificate)
        if not self.sslmode.startswith("verify-"):
            _check_absent(self, ("ca_certificate",), f"sslmode {self.sslmode} does not verify it")

    @property
    def shown_address(self) -> str:
        """`host:port/database`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}/{self.database}"


Connection = KafkaConnection | BucketConnection | DatabaseConnection

_CLASSES: Final[Mapping[str, type[Connection]]] = {
    "kafka": KafkaConnection,
    "s3": BucketConnection,
    "postgresql": DatabaseConnection,
}
KINDS: Final = tuple(_CLASSES)
SECRETS: Final[Mapping[str, tuple[str, ...]]] = {
    kind: cls.SECRETS for kind, cls in _CLASSES.items()
}
"""Names of the secret settings, by kind."""
SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    kind: tuple(setting.name for setting in fields(cls)) for kind, cls in _CLASSES.items()
}
"""Names of all settings in the order of a form, by kind."""


def connection_from_json(kind: str, settings: Mapping[str, Any]) -> Connection:
    """Return the connection with these settings. An empty text stands for an absent setting; `port`
    and `allow_http` may be texts, as a form sends them.

    Raises InvalidInput, with the setting as `key`, for an unknown kind or setting, a missing one,
    and an invalid value. The error never holds the value of a setting.
    """
    if kind not in _CLASSES:
        raise InvalidInput("unknown kind of connection", key="kind", known=list(KINDS))
    if unknown := sorted(str(key)[:40] for key in set(settings) - set(SETTINGS[kind])):
        raise InvalidInput("unknown setting", key=unknown[0], known=list(SETTINGS[kind]))
    values: dict[str, Any] = {}
    for key, value in settings.items():
        if value in ("", None):
            continue
        if key == "port":
            values[key] = _whole_number(key, value)
        elif key == "allow_http":
            values[key] = _switch(key, value)
        elif isinstance(value, str):
            values[key] = value
        else:
            raise InvalidInput("the setting must be a text", key=key)
    for setting in fields(_CLASSES[kind]):
        if setting.default is MISSING and setting.name not in values:
            raise InvalidInput(f"a {kind} connection needs this setting", key=setting.name)
    return _CLASSES[kind](**values)


def connection_to_json(connection: Connection) -> dict[str, str | int | bool]:
    """Return all settings, secrets included; `connection_from_json` reads them."""
    return {setting.name: getattr(connection, setting.name) for setting in fields(connection)}


def is_server(text: str) -> bool:
    """Return whether the text is `host:port`, with an IPv6 address in brackets."""
    parts = SERVER.fullmatch(text)
    return parts is not None and 1 <= int(parts[2]) <= 65_535


def normalize_endpoint(endpoint: str, *, allows_http: bool) -> str:
    """Return an endpoint of S3 without a slash at the end. Signed requests go there, so it must be
    intended (threat T4): clear text needs `allows_http`, except to this machine itself, and a
    link-local address, where clouds serve credentials, is rejected.

    Raises InvalidInput.
    """
    try:
        parts = urlsplit(endpoint)
        host = parts.hostname or ""
        port = parts.port
    except ValueError as error:
        raise InvalidInput("the S3 endpoint is not a valid address") from error
    if parts.username or parts.password:
        raise InvalidInput("the S3 endpoint has a user name; set an access key instead")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise InvalidInput("write the S3 endpoint as https://host:port", endpoint=endpoint[:200])
    if _is_metadata_service(host):
        raise InvalidInput("the S3 endpoint is a link-local address", endpoint=endpoint[:200])
    if parts.scheme == "http" and not (allows_http or _is_loopback(host)):
        raise InvalidInput(
            "the S3 endpoint is not encrypted; use https, or allow http "
            "(AWS_ALLOW_HTTP=true, or allow_http of a connection)",
            endpoint=endpoint[:200],
        )
    bracketed = f"[{host}]" if ":" in host else host
    place = f"{bracketed}:{port}" if port else bracketed
    return f"{parts.scheme}://{place}{parts.path.rstrip('/')}"


def _is_metadata_service(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_link_local


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _whole_number(key: str, value: object) -> int:
    if type(value) is int:
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    raise InvalidInput("the setting must be a whole number", key=key)


def _switch(key: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise InvalidInput("the setting must be true or false", key=key)


def _check_choice(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidInput("the setting has another value than is allowed", key=key, known=allowed)


def _check_text(key: str, value: str) -> None:
    if len(value) > _TEXT_CHARS_MAX or not value.isprintable():
        raise InvalidInput(
            f"the setting must be {_TEXT_CHARS_MAX} printable characters at most", key=key
        )


def _check_secret(key: str, value: str) -> None:
    """Check a secret, also for spaces and line breaks at an end, which come from a clipboard."""
    if len(value) > _SECRET_CHARS_MAX or not value.isprintable() or value != value.strip():
        raise InvalidInput(
            f"the setting must be {_SECRET_CHARS_MAX} printable characters at most, without "
            "spaces at either end",
            key=key,
        )


def _check_certificate(pem: str) -> None:
    if not pem:
        return
    problem = "the setting must be certificates in PEM, from BEGIN CERTIFICATE to END CERTIFICATE"
    if len(pem) > _CERTIFICATE_CHARS_MAX or "PRIVATE KEY" in pem:
        raise InvalidInput(problem, key="ca_certificate")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidInput(problem, key="ca_certificate") from error


def _check_present(connection: object, keys: tuple[str, ...], why: str) -> None:
    for key in keys:
        if not getattr(connection, key):
            raise InvalidInput(f"the setting is missing: {why}", key=key)


def _check_absent(connection: object, keys: tuple[str, ...], why: str) -> None:
    for key in keys:
        if getattr(connection, key):
            raise InvalidInput(f"the setting must be empty: {why}", key=key)
