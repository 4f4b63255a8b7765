"""The lock that separates the writers of a table: Hudi's options, parsed into `LockSettings`.

Hudi's class names are accepted unchanged. An unknown provider is rejected by name with a
replacement, before anything happens. An object with a password never shows it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from workers.errors import InvalidInput
from workers.options.option import Integer, Option, Setter, Text

PROVIDER = "hoodie.write.lock.provider"
FILESYSTEM_PATH = "hoodie.write.lock.filesystem.path"
FILESYSTEM_EXPIRE = "hoodie.write.lock.filesystem.expire"
FILESYSTEM_PAUSE = "sluice.lock.filesystem.pause_ms"
URL = "sluice.lock.url"
URL_VARIABLE = "SLUICE_LOCK_URL"
"""Names the server, with its password, for every process of a node."""

_HUDI = "org.apache.hudi.client.transaction.lock."
_REFUSED = ("Zookeeper", "DynamoDB", "HiveMetastore", "Noop")


class LockProvider(StrEnum):
    """The locks of Sluice; Hudi's class names for them are accepted too."""

    STORAGE = "storage"
    FILESYSTEM = "filesystem"
    DATABASE = "database"
    REDIS = "redis"
    IN_PROCESS = "in_process"


_COUNT_MAX = 1_000_000
LOCK_OPTIONS = (
    Option(
        PROVIDER,
        Text("`storage`, `filesystem`, `database`, `redis`, `in_process`, or Hudi's class name"),
        "",
        "Which lock keeps the writers of the table apart. Empty: the one that it is locked by "
        "already, else the lease in storage. All writers of a table name the same one.",
    ),
    Option(
        FILESYSTEM_PATH,
        Text("absolute path"),
        "",
        "Directory of Hudi's lock file, for the provider `filesystem`; the table's `.hoodie` when "
        "empty.",
    ),
    Option(
        FILESYSTEM_EXPIRE,
        Integer(0, _COUNT_MAX),
        "0",
        "Minutes after which a lock file of Apache Hudi counts as left behind; 0 is never.",
    ),
    Option(
        FILESYSTEM_PAUSE,
        Integer(0, _COUNT_MAX),
        "500",
        "Milliseconds that a writer pauses after a commit next to Hudi's writers, which poll "
        "seldom.",
    ),
    Option(
        URL,
        Text("URL"),
        "",
        f"Address of the database or of Redis that holds the lock; `{URL_VARIABLE}` when empty.",
        Setter.PROGRAM,
    ),
)
_NAMES: dict[str, LockProvider] = {
    **{provider.value: provider for provider in LockProvider},
    f"{_HUDI}StorageBasedLockProvider": LockProvider.STORAGE,
    f"{_HUDI}FileSystemBasedLockProvider": LockProvider.FILESYSTEM,
    f"{_HUDI}InProcessLockProvider": LockProvider.IN_PROCESS,
    "StorageBasedLockProvider": LockProvider.STORAGE,
    "FileSystemBasedLockProvider": LockProvider.FILESYSTEM,
    "InProcessLockProvider": LockProvider.IN_PROCESS,
}
_SCHEMES: dict[LockProvider, tuple[str, ...]] = {
    LockProvider.DATABASE: ("postgresql", "postgres", "sqlite"),
    LockProvider.REDIS: ("redis", "rediss", "unix"),
}
_EXAMPLES = {
    LockProvider.DATABASE: "postgresql://user:password@host/database or sqlite:////var/locks.db",
    LockProvider.REDIS: "redis://:password@host:6379/0",
}


@dataclass(frozen=True, slots=True, repr=False)
class LockUrl:
    """The address of a database or of Redis. Its text form leaves the password out."""

    full: str
    """The address with the password, for the driver only."""

    @property
    def scheme(self) -> str:
        """The scheme, such as `postgresql` or `redis`. Raises ValueError for an invalid URL."""
        return urlsplit(self.full).scheme

    @property
    def redacted(self) -> str:
        """The address without password and parameters."""
        parts = urlsplit(self.full)
        host = parts.netloc.rpartition("@")[2]
        user = f"{quote(unquote(parts.username), safe='')}@" if parts.username else ""
        return f"{parts.scheme}://{user}{host}{parts.path}"

    @property
    def has_password(self) -> bool:
        """True if it contains a password, even among the URL's parameters."""
        parts = urlsplit(self.full)
        return bool(parts.password) or "password" in parts.query.lower()

    def redact(self, text: str) -> str:
        """Return a driver's message without the password that it may quote."""
        password = urlsplit(self.full).password
        for secret in filter(None, (self.full, password and unquote(password), password)):
            text = text.replace(secret, "...")
        return text.strip()

    def __repr__(self) -> str:
        return f"LockUrl({self.redacted!r})"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class LockSettings:
    """The write options of the table lock. `workers.concurrency.locks.bound_lock` opens it."""

    provider: LockProvider | None = None
    """None: whatever the table is bound to already; the storage lease where it is to nothing."""
    url: LockUrl | None = None
    """The address of the database or of Redis."""
    directory: str = ""
    """The directory of Hudi's lock file; empty for the table's `.hoodie`."""
    expire_minutes: int = 0
    """After which a lock file of Apache Hudi counts as left behind; 0 is never."""
    pause_ms: int = 0
    """About how long a writer steps aside after a commit: Hudi asks seldom and wants its turn."""


def lock_settings(
    values: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> LockSettings:
    """Parse the lock of a table from write options with their defaults filled in; `environment` may
    hold the address, by default this process's. Raises InvalidInput.
    """
    environment = os.environ if environment is None else environment
    provider = _provider(values[PROVIDER])
    directory = _directory(values[FILESYSTEM_PATH])
    if directory and provider is not LockProvider.FILESYSTEM:
        raise InvalidInput(
            f"{FILESYSTEM_PATH} belongs to the lock provider filesystem",
            write=f"{PROVIDER}={LockProvider.FILESYSTEM}",
        )
    return LockSettings(
        provider=provider,
        url=_url(provider, values[URL], environment.get(URL_VARIABLE, "")),
        directory=directory,
        expire_minutes=_minutes(values[FILESYSTEM_EXPIRE], FILESYSTEM_EXPIRE),
        pause_ms=_minutes(values[FILESYSTEM_PAUSE], FILESYSTEM_PAUSE),
    )


def find_provider(url: LockUrl) -> LockProvider:
    """Return the provider whose server has such an address. Raises InvalidInput."""
    for provider, schemes in _SCHEMES.items():
        if url.scheme in schemes:
            return provider
    raise InvalidInput(
        "no lock provider has such an address", for_example=" or ".join(_EXAMPLES.values())
    )


def _provider(name: str) -> LockProvider | None:
    if not name:
        return None
    if (provider := _NAMES.get(name)) is not None:
        return provider
    short = name.rpartition(".")[2]
    supported = ", ".join(provider.value for provider in LockProvider)
    if short.startswith(_REFUSED):
        raise InvalidInput(
            "this lock provider of Apache Hudi is not there; to share a table with Hudi's writers "
            "name FileSystemBasedLockProvider on both sides, else one of ours",
            provider=name,
            ours=supported,
        )
    raise InvalidInput("unknown lock provider", key=PROVIDER, value=name, known=supported)


def _directory(path: str) -> str:
    if not path:
        return ""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file") or not Path(parts.path).is_absolute():
        raise InvalidInput(
            "the directory of the lock file must be an absolute path on this machine",
            key=FILESYSTEM_PATH,
            value=path,
        )
    return parts.path.rstrip("/") or "/"


def _url(provider: LockProvider | None, option: str, configured: str) -> LockUrl | None:
    if option and provider is not None and provider not in _SCHEMES:
        raise InvalidInput(
            f"{URL} belongs to the lock providers database and redis", given=provider
        )
    text = option or configured
    if not text:
        if provider in _SCHEMES:
            raise InvalidInput(
                f"the lock provider {provider} needs an address: set {URL}, or {URL_VARIABLE} in "
                "the environment of every process",
                for_example=_EXAMPLES[provider],
            )
        return None
    url = LockUrl(text)
    if provider in _SCHEMES:
        _check_scheme(provider, url)
        # A stored option names the server, the environment alone its password.
        if configured and not url.has_password and LockUrl(configured).redacted == url.redacted:
            url = LockUrl(configured)
    elif option:
        raise InvalidInput(f"{URL} is given and {PROVIDER} is not", write="database or redis")
    return url


def _check_scheme(provider: LockProvider, url: LockUrl) -> None:
    try:
        scheme = url.scheme
        _ = urlsplit(url.full).port
    except ValueError as error:
        raise InvalidInput(
            "the address of the lock server must be a URL", for_example=_EXAMPLES[provider]
        ) from error
    if scheme not in _SCHEMES[provider]:
        raise InvalidInput(
            f"the address does not fit the lock provider {provider}",
            scheme=scheme,
            for_example=_EXAMPLES[provider],
        )


def _minutes(text: str, key: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > 1_000_000:
        raise InvalidInput("not a whole number from 0 to 1,000,000", key=key, value=text)
    return int(text)
