"""What pytest uses: a database in memory, no Redis, tasks that run where they are called."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import psutil

from controlplane.outgoing.addresses import Allowed
from controlplane.settings.base import *  # noqa: F403  (Django settings are composed by star import)
from controlplane.settings.base import REST_FRAMEWORK
from controlplane.settings.connections import database

SECRET_KEY = "a key for tests only"
_HOME_PREFIX = "sluice-test-"
SLUICE_HOME = Path(tempfile.mkdtemp(prefix=f"{_HOME_PREFIX}{os.getpid()}-"))
"""Each process has its own, so that neither two runs nor two workers of pytest share it."""


def _remove_home(owner_pid: int) -> None:
    """Remove the home when the process that made it ends; its forked children leave it."""
    if os.getpid() == owner_pid:
        shutil.rmtree(SLUICE_HOME, ignore_errors=True)


def _remove_abandoned_homes() -> None:
    """Remove the homes of processes that were killed, or that end without cleaning up, as mypy."""
    for home in SLUICE_HOME.parent.glob(f"{_HOME_PREFIX}*-*"):
        pid = home.name.removeprefix(_HOME_PREFIX).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(home, ignore_errors=True)


atexit.register(_remove_home, os.getpid())
_remove_abandoned_homes()
STATIC_ROOT = SLUICE_HOME / "static"
STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # Whitenoise warns about one that is not there.
SLUICE_WORKER_TOKEN = "worker-token-for-tests"
SLUICE_MARKER_SECRET = "marker-secret-for-tests"
SLUICE_METRICS_TOKEN = "metrics-token-for-tests"
SLUICE_UPLOAD_FOLDER = ""
SLUICE_REDIS_URL = ""
SLUICE_OIDC = None
CELERY_BROKER_URL = "memory://"
ALLOWED_HOSTS = ["testserver", "127.0.0.1", "localhost"]

SLUICE_OUTGOING_ALLOWED = Allowed()

# `tests.support.shared_postgres` sets it for pytest; `SLUICE_TEST_DATABASE=:memory:` is SQLite.
DATABASES = {"default": database(os.environ.get("SLUICE_TEST_DATABASE") or ":memory:")}
if "postgresql" in DATABASES["default"]["ENGINE"]:
    # Programs that a test starts share the cluster, but not the database.
    DATABASES["default"]["TEST"] = {"NAME": f"test_{os.getpid()}"}
    # A thread that ends would leave its connection open until the garbage collector finds it.
    DATABASES["default"]["CONN_MAX_AGE"] = 0
    if os.environ.get("SLUICE_TEST_CLUSTER"):  # Its role is a superuser.
        DATABASES["default"]["ENGINE"] = "tests.support.postgresql_backend"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
REST_FRAMEWORK = {**REST_FRAMEWORK, "DEFAULT_THROTTLE_RATES": {"rollback": None, "service": None}}
