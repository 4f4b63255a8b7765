"""Settings that every way of running shares. Values come from SLUICE_* variables; each has a safe
default.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from controlplane.node.places import find_home
from controlplane.outgoing.addresses import read_allowed
from controlplane.settings.connections import (
    database,
    get_host,
    page_address,
    redis_for_celery,
    redis_for_clients,
)
from controlplane.settings.logs import logging_settings
from controlplane.settings.oidc import read_oidc
from controlplane.settings.secrets import read_secrets
from controlplane.sql.limits import SqlLimits
from workers.installation import ROOT
from workers.locations import parse_roots, parse_source_roots
from workers.options.option_values import parse_list
from workers.processes import LOOPBACK, get_address
from workers.sink.kafka.allowed_brokers import (
    BROKERS_VARIABLE,
    CA_FOLDER_VARIABLE,
    parse_allowed_brokers,
)

BASE_DIR = ROOT
SLUICE_HOME = find_home(os.environ)
SLUICE_TABLE_ROOTS = tuple(
    parse_roots(os.environ.get("SLUICE_TABLE_ROOTS") or str(SLUICE_HOME / "tables"))
)
SLUICE_SOURCE_ROOTS = tuple(
    str(root) for root in parse_source_roots(os.environ.get("SLUICE_SOURCE_ROOTS", ""))
)
"""Each as `/srv/drop` or, with the namespace that it belongs to, `sales=/srv/drop`."""
SLUICE_UPLOAD_FOLDER = os.environ.get("SLUICE_UPLOAD_FOLDER") or ""
"""Empty for `uploads` in the home. Workers on other hosts need one that they share."""
SLUICE_UPLOAD_BYTES_MAX = int(os.environ.get("SLUICE_UPLOAD_MB") or 1_024) << 20
SLUICE_UPLOAD_DAYS = int(os.environ.get("SLUICE_UPLOAD_DAYS") or 7)
_secrets = read_secrets(SLUICE_HOME)
SECRET_KEY = _secrets.django_secret_key
SLUICE_WORKER_TOKEN = _secrets.worker_token
SLUICE_MARKER_SECRET = _secrets.marker_secret
SLUICE_METRICS_TOKEN = _secrets.metrics_token

SLUICE_PORT = int(os.environ.get("SLUICE_WEB_PORT") or 8000)
SLUICE_WEB_HOST = os.environ.get("SLUICE_WEB_HOST") or LOOPBACK
SLUICE_MARKER_HOST = os.environ.get("SLUICE_MARKER_HOST") or LOOPBACK
SLUICE_MARKER_PORT = int(os.environ.get("SLUICE_MARKER_PORT") or 8766)
SLUICE_MARKER_URL = os.environ.get("SLUICE_MARKER_URL") or ""
SLUICE_OWN_MARKER_SERVER = os.environ.get("SLUICE_OWN_MARKER_SERVER") != "0"
"""Set by the node for its processes: off where SLUICE_MARKER_URL names another's server."""
SLUICE_MARKER_PROBE_TIMEOUT_S = float(os.environ.get("SLUICE_MARKER_PROBE_TIMEOUT_S") or 1)
SLUICE_MARKER_START_TIMEOUT_S = float(os.environ.get("SLUICE_MARKER_START_TIMEOUT_S") or 5)
SLUICE_MARKER_DRAIN_TIMEOUT_S = float(os.environ.get("SLUICE_MARKER_DRAIN_TIMEOUT_S") or 10)
_interval = os.environ.get("SLUICE_MARKER_INTERVAL_MS")
SLUICE_MARKER_INTERVAL_MS = int(_interval) if _interval else None
"""None: the server starts a flush as soon as the previous one ends."""
SLUICE_MARKER_THREADS = int(os.environ.get("SLUICE_MARKER_THREADS") or 20)
_OWN_URL = get_address(SLUICE_WEB_HOST, SLUICE_PORT)
SLUICE_PUBLIC_URL = page_address(os.environ, "SLUICE_PUBLIC_URL") or _OWN_URL
_report_base = page_address(os.environ, "SLUICE_REPORT_URL") or _OWN_URL
SLUICE_REPORT_URL = f"{_report_base.rstrip('/')}/api/v1/reports/operations/"
SLUICE_SPARK_REMOTE = os.environ.get("SLUICE_SPARK_REMOTE") or "sc://127.0.0.1:15002"
SLUICE_SPARK_UI_URL = page_address(os.environ, "SLUICE_SPARK_UI_URL")
SLUICE_REDIS_URL = redis_for_clients(os.environ.get("SLUICE_REDIS_URL") or "")
SLUICE_REDIS_TIMEOUT_S = float(os.environ.get("SLUICE_REDIS_TIMEOUT_S") or 2)

SLUICE_KAFKA_BROKERS = parse_list(os.environ.get(BROKERS_VARIABLE))
"""The brokers that requests may name, and the passwords bound to them (`parse_allowed_brokers`). If
the list is empty, requests may name any broker, and no broker gets a password.
"""
parse_allowed_brokers(
    ",".join(SLUICE_KAFKA_BROKERS)
)  # One that cannot be read is an error at the start.
SLUICE_KAFKA_CA_FOLDER = os.environ.get(CA_FOLDER_VARIABLE) or ""

SLUICE_OUTGOING_ALLOWED = read_allowed(os.environ.get("SLUICE_OUTGOING_ALLOWED") or "")

EMAIL_HOST = os.environ.get("SLUICE_EMAIL_HOST") or ""
"""Without one this node sends no mail."""
_email_tls = os.environ.get("SLUICE_EMAIL_TLS") or "starttls"
EMAIL_USE_TLS, EMAIL_USE_SSL = _email_tls == "starttls", _email_tls == "tls"
EMAIL_PORT = int(
    os.environ.get("SLUICE_EMAIL_PORT") or {"tls": 465, "none": 25}.get(_email_tls, 587)
)
EMAIL_HOST_USER = os.environ.get("SLUICE_EMAIL_USER") or ""
EMAIL_HOST_PASSWORD = os.environ.get("SLUICE_EMAIL_PASSWORD") or ""
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = os.environ.get("SLUICE_EMAIL_FROM") or f"sluice@{EMAIL_HOST or 'localhost'}"

SLUICE_OPERATION_DAYS = int(os.environ.get("SLUICE_OPERATION_DAYS") or 365)
"""0: for ever."""
SLUICE_OPERATION_LOG_LINES = int(os.environ.get("SLUICE_OPERATION_LOG_LINES") or 5_000)
SLUICE_OPERATION_LOG_DAYS = int(os.environ.get("SLUICE_OPERATION_LOG_DAYS") or 14)

SLUICE_SQL = SqlLimits(
    memory_bytes=int(os.environ.get("SLUICE_SQL_MEMORY_MB") or 1_024) << 20,
    wall_s=float(os.environ.get("SLUICE_SQL_SECONDS") or 20),
    cpu_s=int(float(os.environ.get("SLUICE_SQL_SECONDS") or 20)),
    per_user=int(os.environ.get("SLUICE_SQL_PER_USER") or 2),
    per_node=int(os.environ.get("SLUICE_SQL_PER_NODE") or 4),
)

DEBUG = False
ALLOWED_HOSTS = [
    host
    for host in (os.environ.get("SLUICE_ALLOWED_HOSTS") or "127.0.0.1,localhost,[::1]").split(",")
    if host
]
# Writers call this node by the host of their reports, whatever a proxy in front is called.
ALLOWED_HOSTS += {get_host(_report_base)} - set(ALLOWED_HOSTS)
CSRF_TRUSTED_ORIGINS = [
    origin for origin in (os.environ.get("SLUICE_TRUSTED_ORIGINS") or "").split(",") if origin
]

SLUICE_LIVE_STREAMS_MAX = int(os.environ.get("SLUICE_LIVE_STREAMS_MAX") or 1_200)
SLUICE_MIRROR_FILE_GROUPS_MAX = int(os.environ.get("SLUICE_MIRROR_FILE_GROUPS_MAX") or 20_000)
if SLUICE_MIRROR_FILE_GROUPS_MAX < 1:
    raise ImproperlyConfigured("SLUICE_MIRROR_FILE_GROUPS_MAX must be at least 1")
SLUICE_METRICS_TABLES_MAX = int(os.environ.get("SLUICE_METRICS_TABLES_MAX") or 500)
if SLUICE_METRICS_TABLES_MAX < 1:
    raise ImproperlyConfigured("SLUICE_METRICS_TABLES_MAX must be at least 1")
SLUICE_STALE_AFTER_S = float(os.environ.get("SLUICE_STALE_AFTER_S") or 120)
SLUICE_FRESHNESS_TARGET_MIN = float(os.environ.get("SLUICE_FRESHNESS_TARGET_MIN") or 24 * 60)
if not 0 <= SLUICE_FRESHNESS_TARGET_MIN < float("inf"):
    raise ImproperlyConfigured(
        "SLUICE_FRESHNESS_TARGET_MIN must be a number of minutes, or 0 for none"
    )

SLUICE_DEMO = os.environ.get("SLUICE_DEMO") != "0"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "csp",
    "rest_framework",
    "knox",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "controlplane.accounts",
    "controlplane.audit",
    "controlplane.tables",
    "controlplane.connections",
    "controlplane.uploads",
    "controlplane.preferences",
    "controlplane.mirror",
    "controlplane.writers",
    "controlplane.sql",
    "controlplane.operations",
    "controlplane.api",
    "controlplane.node",
    "controlplane.monitoring",
    "web",
    *(["controlplane.demo", "web.demo"] if SLUICE_DEMO else []),
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    # Outside of all that answers or replaces an answer: each answer carries what they add.
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "controlplane.compression.CompressionMiddleware",
    "controlplane.monitoring.middleware.CountRequestsMiddleware",
    "controlplane.audit.middleware.RequestIdMiddleware",
    "controlplane.monitoring.middleware.TraceRequestsMiddleware",
    "controlplane.api.middleware.JsonErrorsMiddleware",
    "controlplane.api.control_characters.ControlCharactersMiddleware",
    "controlplane.api.conditional.ConditionalAnswersMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "controlplane.tables.former_slugs.FormerSlugMiddleware",
    "web.cards.CardTablesMiddleware",
]

ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "web.shell.shell",
                "web.additions.strips",
            ],
            "builtins": [
                "django.templatetags.static",
                "web.templatetags.lake",
                "web.templatetags.components",
                "web.templatetags.branches",
            ],
        },
    }
]

DATABASES = {
    "default": database(
        os.environ.get("SLUICE_DATABASE") or str(SLUICE_HOME / "db.sqlite3"),
        pool_max=int(os.environ.get("SLUICE_DATABASE_POOL") or 0),
        is_prepared=os.environ.get("SLUICE_DATABASE_PREPARED") != "0",
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CACHES: dict[str, dict[str, Any]] = {
    "default": (
        {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": SLUICE_REDIS_URL,
            # One that is frozen must not hold a login for longer than one that is gone.
            "OPTIONS": {
                "socket_timeout": SLUICE_REDIS_TIMEOUT_S,
                "socket_connect_timeout": SLUICE_REDIS_TIMEOUT_S,
            },
        }
        if SLUICE_REDIS_URL
        else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    )
}

SLUICE_OIDC = read_oidc(os.environ)
AUTHENTICATION_BACKENDS = [
    "controlplane.accounts.backends.ThrottledBackend",
    "controlplane.people.oidc.backend.OidcBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
    )
]
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
PASSWORD_RESET_TIMEOUT = 24 * 3600
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_HTTPONLY = False
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:", "blob:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "/static/"
SLUICE_STATIC_FOLDER = os.environ.get("SLUICE_STATIC_FOLDER") or ""
"""Empty for `static` in the home, which the web process fills."""
STATIC_ROOT = Path(SLUICE_STATIC_FOLDER or SLUICE_HOME / "static")
STATICFILES_DIRS: list[Path] = []
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "web.finders.PlotlyFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "web.static_files.RememberedAddresses"},
}
# Some packaged stylesheets name source maps that they do not ship.
WHITENOISE_MANIFEST_STRICT = False
# Pages name the hashed files only, and compressing each twice takes half a minute.
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
# Source maps are two thirds of the bytes, and hardly anybody asks for one.
WHITENOISE_SKIP_COMPRESS_EXTENSIONS = (
    *("jpg", "jpeg", "png", "gif", "webp", "zip", "gz", "br", "woff", "woff2"),
    "map",
)

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "controlplane.api.auth.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["controlplane.api.auth.IsViewer"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["controlplane.api.bodies.BoundedJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "controlplane.api.openapi.Schema",
    "EXCEPTION_HANDLER": "controlplane.api.errors.answer",
    "DEFAULT_THROTTLE_CLASSES": ["rest_framework.throttling.ScopedRateThrottle"],
    "DEFAULT_THROTTLE_RATES": {"rollback": "5/min", "service": "30/min"},
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Sluice",
    "DESCRIPTION": "What many writers do to one lakehouse table, and how to undo it.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "controlplane.api.documented_problems.add_problems",
        "controlplane.api.list_files.add_files",
    ],
    "SERVE_PERMISSIONS": ["controlplane.api.auth.IsViewer"],
    "ENUM_NAME_OVERRIDES": {
        "SeverityEnum": ["info", "warning", "critical"],
        "ChannelKindEnum": ["mail", "webhook", "apprise"],
        "ConnectionKindEnum": ["kafka", "s3", "postgresql"],
        "SourceEnum": ["default", "everywhere", "namespace", "table"],
        "ReachEnum": ["table", "namespace", "everywhere"],
    },
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}
KNOX_TOKEN_MODEL = "accounts.Token"  # noqa: S105 - a model
REST_KNOX = {
    "TOKEN_TTL": None,
    "AUTH_HEADER_PREFIX": "Token",
    "TOKEN_PREFIX": "sluice_",
}
SLUICE_TOKEN_DAYS_MAX = int(os.environ.get("SLUICE_TOKEN_DAYS_MAX") or 365)
SLUICE_TOKEN_DAYS = min(int(os.environ.get("SLUICE_TOKEN_DAYS") or 90), SLUICE_TOKEN_DAYS_MAX)

CELERY_BROKER_URL = redis_for_celery(SLUICE_REDIS_URL) or "memory://"

_is_shell = Path(sys.argv[0]).name in ("manage.py", "sluice")
"""The node's own processes are started otherwise."""
LOGGING = logging_settings(
    os.environ, shell_log=SLUICE_HOME / "log" / "shell.log" if _is_shell else None
)
