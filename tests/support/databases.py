"""Empty databases of a test's own, with SQLite and with PostgreSQL, in the place of the one that
pytest gives it: for migrations, backups and all that a transaction cannot undo.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import load_backend
from pytest_django.plugin import DjangoDbBlocker

from bench.support.postgres import find_obstacle
from controlplane.settings.connections import database
from tests.support.shared_postgres import DATABASE

VENDORS = (pytest.param("sqlite", marks=pytest.mark.slow), "postgresql")
"""`make test` has PostgreSQL, which nodes should use; `make longer` has both."""


@pytest.fixture(params=VENDORS)
def own_database(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    start_postgres: None,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[str]:
    """Yield the vendor of an empty database that is the default one during the test."""
    _check_available(request.param)
    with (
        django_db_blocker.unblock(),
        _database(request.param, tmp_path) as address,
        _as_default(address),
    ):
        yield request.param


@pytest.fixture(params=VENDORS)
def database_with_tables(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    templates: Callable[[str], str],
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[str]:
    """The same, with all tables: a copy of a database that was migrated once."""
    _check_available(request.param)
    with django_db_blocker.unblock():
        copy = _database(request.param, tmp_path, template=templates(request.param))
        with copy as address, _as_default(address):
            yield request.param


@pytest.fixture(scope="session")
def templates(
    start_postgres: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], str]]:
    """Return the address of a migrated database of a vendor, made when it is first needed."""
    with ExitStack() as stack:

        @cache
        def migrate(vendor: str) -> str:
            folder = tmp_path_factory.mktemp(f"template-{vendor}")
            address = stack.enter_context(_database(vendor, folder))
            with _as_default(address):
                call_command("migrate", verbosity=0)
            return address

        yield migrate


def _check_available(vendor: str) -> None:
    if vendor == "postgresql" and not os.environ.get(DATABASE, "").startswith("postgres"):
        pytest.skip(find_obstacle() or f"{DATABASE} names SQLite")


@contextmanager
def _database(vendor: str, folder: Path, *, template: str = "") -> Iterator[str]:
    """Yield the address of a database, empty or a copy of the template."""
    if vendor == "sqlite":
        path = folder / "own.sqlite3"
        if template:
            shutil.copyfile(template, path)
        yield str(path)
        return
    server = urlsplit(os.environ[DATABASE])
    name = f"own_{uuid.uuid4().hex}"
    source = urlsplit(template).path.lstrip("/") or "template1"
    with psycopg.connect(server.geturl(), autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{source}"')
        try:
            yield server._replace(path=f"/{name}").geturl()
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def _as_default(address: str) -> Iterator[None]:
    former = connections["default"]
    settings = {**former.settings_dict, "TEST": {}, **database(address)}
    ours: BaseDatabaseWrapper = load_backend(settings["ENGINE"]).DatabaseWrapper(settings)
    connections["default"] = ours
    ContentType.objects.clear_cache()
    try:
        yield
    finally:
        ours.close()
        connections["default"] = former
        ContentType.objects.clear_cache()
