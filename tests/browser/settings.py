"""The served site of the browser tests: everything as in production but the login's key and the
static files' names.
"""

from __future__ import annotations

import os

from controlplane.settings.base import *  # noqa: F403  (Django settings are composed by star import)
from tests.browser.words import WORKER_TOKEN

SECRET_KEY = "a key for tests only"
SLUICE_WORKER_TOKEN = WORKER_TOKEN
SLUICE_MARKER_SECRET = "marker-secret-for-tests"
# Jobs are asked for, nobody takes them: what a worker would do is the seed's to tell.
CELERY_BROKER_URL = "memory://"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]
assert os.environ.get("SLUICE_HOME"), "browser tests have a home of their own"
