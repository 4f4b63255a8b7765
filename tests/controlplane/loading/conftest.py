"""A node whose admin loads files from one folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from tests.controlplane.loading.entry_points import Node


@pytest.fixture
def node(root: Path, tmp_path: Path, admin: User, client: Client, settings: Settings) -> Node:
    drop, run = tmp_path / "drop", tmp_path / "run"
    drop.mkdir()
    run.mkdir()
    settings.SLUICE_SOURCE_ROOTS = (f"default={drop}",)
    client.force_login(admin)
    return Node(root, drop, run, client)
