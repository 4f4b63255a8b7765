"""Addresses given as one text: the database and Redis, in the spellings that libraries expect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

_BUSY_TIMEOUT_S = 5
_POOL_WAIT_S = 10


def page_address(environ: Mapping[str, str], name: str) -> str:
    """The address of pages that people are sent to, from the variable of this name; empty where it
    is not set. Raises ImproperlyConfigured for anything but a plain http or https address.
    """
    address = environ.get(name) or ""
    if not address:
        return ""
    parts = urlsplit(address)
    is_plain = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    if not is_plain or not address.isprintable() or " " in address:
        raise ImproperlyConfigured(f"{name} must be http:// or https:// and a host, no password")
    return address


def get_host(address: str) -> str:
    """Return the host of a page address, in the form of ALLOWED_HOSTS."""
    host = urlsplit(address).hostname or ""
    return f"[{host}]" if ":" in host else host


def database(address: str, *, pool_max: int = 0, is_prepared: bool = True) -> dict[str, Any]:
    """Django's database settings for a path, a `sqlite:` URL or a `postgres:` URL.

    `pool_max` is how many connections to PostgreSQL all threads of this process share; with 0 each
    thread keeps one of its own for a minute, as suits processes of few threads that fork.
    `is_prepared`: PostgreSQL keeps the plans of the statements that ask for it
    (`controlplane.prepared`), and compiles none of them: what its JIT makes for a page of a fleet
    takes six times as long as the statement does. Not every pooler between lets either through.

    Raises ImproperlyConfigured for an unknown scheme, or an unknown parameter of PostgreSQL.
    """
    parts = urlsplit(address)
    if parts.scheme in ("postgres", "postgresql"):
        pool = {"min_size": 1, "max_size": pool_max, "timeout": _POOL_WAIT_S}
        direct = {"prepare_threshold": 0, "options": "-c jit=off"} if is_prepared else {}
        parameters = _libpq_parameters(parts.query)
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path.lstrip("/")),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": parts.hostname or parameters.pop("host", ""),
            "PORT": str(parts.port or ""),
            "CONN_MAX_AGE": 0 if pool_max else 60,
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {**direct, **parameters, **({"pool": pool} if pool_max else {})},
        }
    if parts.scheme == "sqlite":
        return sqlite(parts.path)
    if parts.scheme == "":
        return sqlite(address)
    raise ImproperlyConfigured(f"SLUICE_DATABASE has an unknown scheme: {parts.scheme}")


def _libpq_parameters(query: str) -> dict[str, str]:
    """Return the parameters of an address, such as `sslmode`. Raises ImproperlyConfigured."""
    if not query:
        return {}
    from psycopg.conninfo import make_conninfo  # Late: SQLite needs no client of PostgreSQL.
    from psycopg.errors import ProgrammingError

    parameters = dict(parse_qsl(query, keep_blank_values=True))
    try:
        make_conninfo(**parameters)
    except ProgrammingError as error:
        raise ImproperlyConfigured(
            f"SLUICE_DATABASE has a parameter that PostgreSQL does not know: {error}"
        ) from error
    return parameters


def sqlite(path: str | Path) -> dict[str, Any]:
    """WAL and immediate transactions, so that a writer waits instead of failing; never mmap."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "OPTIONS": {
            "timeout": _BUSY_TIMEOUT_S,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def redis_for_clients(address: str) -> str:
    """The form redis-py reads: a socket is `unix:///path`."""
    return address.replace("redis+socket://", "unix://", 1)


def redis_for_celery(address: str) -> str:
    """The form Celery reads: a socket is `redis+socket:///path`."""
    return address.replace("unix://", "redis+socket://", 1)
