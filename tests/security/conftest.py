"""People who have a role on some tables only, beside those who have one everywhere."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.accounts.models import Grant
from controlplane.tables.models import Table
from tests.controlplane.api.test_permissions import addresses, operation  # noqa: F401 - fixtures
from tests.controlplane.conftest import lake, synced, working  # noqa: F401 - fixtures
from tests.support.fixtures import (  # noqa: F401 - fixtures
    pytest_runtest_makereport,
    tables,
    tables_root,
)
from tests.web.conftest import (  # noqa: F401 - fixtures
    _fresh_cache,
    admin,
    as_admin,
    nobody,
    operator,
    orders,
    root,
    trips,
    trips_on_storage,
    viewer,
)
from tests.web.test_events import anyio_backend, bus, live  # noqa: F401 - fixtures

THEIRS = "theirs"
"""The namespace, and the slug, of the only table that `guest` sees."""


@pytest.fixture
def their_table(db: None) -> Table:
    """Of another namespace than every other table, and without anything in it."""
    return Table.objects.create(
        slug=THEIRS, name=THEIRS, namespace=THEIRS, location=f"/lake/{THEIRS}"
    )


@pytest.fixture
def guest(their_table: Table) -> User:
    """An admin of one table, and nothing anywhere else."""
    person = User.objects.create_user("gus", password="a long enough password")
    Grant.objects.create(user=person, table=their_table, role="admin", granted_by="a test")
    return person


@pytest.fixture
def as_guest(guest: User) -> Client:
    client = Client()
    client.force_login(guest)
    return client
