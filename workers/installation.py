"""The place of this copy of Sluice, a checkout or a wheel, and its names of commands and extras.

Pure: nothing is imported, installed or changed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from workers.errors import InvalidInput

ROOT: Final = Path(__file__).resolve().parents[1]
"""The folder of `workers`, `controlplane`, `web`, `templates` and `docs`."""
IS_CHECKOUT: Final = (ROOT / "manage.py").is_file()
EXTRAS: Final = {
    "celery": "server",
    "certifi": "postgres",
    "confluent_kafka": "kafka",
    "django": "server",
    "duckdb": "sql",
    "grpc": "spark",
    "obstore": "s3",
    "pandas": "spark",
    "psycopg": "postgres",
    "py4j": "spark",
    "pyspark": "spark",
    "redis": "redis",
    "sqlglot": "sql",
}
"""The extra of the wheel that installs a package, by the name of its module."""
_MAKE_TARGETS: Final = {
    "demo --start": "demo",
    "doctor": "doctor",
    "down": "down",
    "status": "status",
    "up": "up",
}


def format_command(words: str, *, is_checkout: bool = IS_CHECKOUT) -> str:
    """Return what a user types for a command: `sluice up`, or `make up` in a checkout."""
    if not is_checkout:
        return f"sluice {words}"
    target = _MAKE_TARGETS.get(words)
    return f"make {target}" if target else f"manage.py {words}"


def format_installation(extra: str, *, is_checkout: bool = IS_CHECKOUT) -> str:
    """Return what a user types to install what an extra needs."""
    return "make setup" if is_checkout else f"pip install 'sluice[{extra}]'"


def describe_missing(error: ModuleNotFoundError) -> str | None:
    """Return one sentence that names the extra to install; None if no extra has this module."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        return None
    return f"{package} is not installed: {format_installation(EXTRAS[package])}"


@contextmanager
def check_imports() -> Iterator[None]:
    """Raise InvalidInput that names the extra if an import in the block misses its package."""
    try:
        yield
    except ModuleNotFoundError as error:
        sentence = describe_missing(error)
        if sentence is None:
            raise
        raise InvalidInput(sentence) from error
