"""Every storage there is, empty and made for one test."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.support.s3_server import BUCKET, shared_server
from tests.support.crash_ports import StillClock
from tests.support.memory_storage import MemoryStorage
from workers.locations import bucket_place
from workers.storage import object_store
from workers.storage.base import Storage
from workers.storage.below import StorageBelow
from workers.storage.local import LocalStorage
from workers.storage.object_store import ObjectStorage
from workers.storage.s3_settings import s3_settings


def use_bucket(monkeypatch: pytest.MonkeyPatch) -> str:
    """Give this process the keys of the tests' bucket, and return a location of its own there."""
    for name, value in shared_server().environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


def bucket_storage(prefix: str = "", **environment: str) -> ObjectStorage:
    """Below a prefix of its own, unless one is named."""
    location = f"s3://{BUCKET}/{prefix or uuid.uuid4().hex}"
    settings = s3_settings(shared_server().environment | environment)
    return object_store.bucket_storage(bucket_place(location), settings)


STORAGES: dict[str, Callable[[Path], Storage]] = {
    "directory": lambda root: LocalStorage(root / "table"),
    "bucket": lambda root: bucket_storage(),
    "below": lambda root: StorageBelow(LocalStorage(root / "outer"), ".hoodie/metadata"),
    "memory": lambda root: MemoryStorage(StillClock()),
}
SHARED = ("directory", "bucket")
"""Those that several threads and processes may use at once."""
