"""What this process goes by: every setting of the node with the value that holds, and where that
comes from. Secrets say only whether there is one; passwords in addresses are masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from django.conf import settings

from controlplane.node.environment import settings_of
from controlplane.node.identity import read_identity
from controlplane.node.places import Places
from controlplane.node.secrets_file import read_secrets
from workers.masking import Masker, secret_values

Source = Literal["default", "environment", "node.json", "secrets.json"]


_MADE: Final = {
    "SLUICE_SECRET_KEY": "django_secret_key",
    "SLUICE_WORKER_TOKEN": "worker_token",
    "SLUICE_MARKER_SECRET": "marker_secret",
    "SLUICE_METRICS_TOKEN": "metrics_token",
}
"""Secrets that a node makes for itself, and their names in its file."""


@dataclass(frozen=True, slots=True)
class NodeSetting:
    name: str
    area: str
    default: str
    """In words."""
    meaning: str
    held_as: str = ""
    """The name under which the process keeps the value; empty where `default` says it all."""
    is_secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    setting: NodeSetting
    shown: str
    """What holds; of a secret whether there is one."""
    source: Source


_PLACES, _PEOPLE, _LIMITS, _OTHERS = "Places and addresses", "People", "Limits", "Logs and others"
_SECRETS = "Secrets"
NODE_SETTINGS: Final = (
    NodeSetting("SLUICE_HOME", _PLACES, "var/", "where the node keeps everything", "SLUICE_HOME"),
    NodeSetting(
        "SLUICE_TABLE_ROOTS", _PLACES, "<home>/tables", "below which tables may be",
        "SLUICE_TABLE_ROOTS",
    ),
    NodeSetting(
        "SLUICE_SOURCE_ROOTS", _PLACES, "none", "below which files with rows may be",
        "SLUICE_SOURCE_ROOTS",
    ),
    NodeSetting(
        "SLUICE_UPLOAD_FOLDER", _PLACES, "<home>/uploads", "where uploaded files are stored",
        "SLUICE_UPLOAD_FOLDER",
    ),
    NodeSetting("SLUICE_UPLOAD_MB", _LIMITS, "1024", "megabytes of an uploaded file"),
    NodeSetting(
        "SLUICE_UPLOAD_DAYS", _LIMITS, "7", "days that an unused upload is stored",
        "SLUICE_UPLOAD_DAYS",
    ),
    NodeSetting(
        "SLUICE_KAFKA_BROKERS", _PLACES, "any, without passwords",
        "brokers of requests, and the passwords that they are sent", "SLUICE_KAFKA_BROKERS",
    ),
    NodeSetting(
        "SLUICE_KAFKA_CA_FOLDER", _PLACES, "none", "below which files of brokers' certificates are",
        "SLUICE_KAFKA_CA_FOLDER",
    ),
    NodeSetting(
        "SLUICE_WEB_HOST", _PLACES, "127.0.0.1", "address that the web process listens on",
        "SLUICE_WEB_HOST",
    ),
    NodeSetting("SLUICE_WEB_PORT", _PLACES, "8000", "port of the pages", "SLUICE_PORT"),
    NodeSetting("SLUICE_SPARK_PORT", _PLACES, "15002", "port of the node's Spark"),
    NodeSetting(
        "SLUICE_MARKER_PORT", _PLACES, "8766", "port of the marker server", "SLUICE_MARKER_PORT"
    ),
    NodeSetting(
        "SLUICE_MARKER_HOST", _PLACES, "127.0.0.1", "address that the marker server listens on",
        "SLUICE_MARKER_HOST",
    ),
    NodeSetting(
        "SLUICE_MARKER_URL", _PLACES, "the node's own", "the marker server", "SLUICE_MARKER_URL"
    ),
    NodeSetting(
        "SLUICE_PUBLIC_URL", _PLACES, "the web process", "address of the pages in links",
        "SLUICE_PUBLIC_URL",
    ),
    NodeSetting(
        "SLUICE_REPORT_URL", _PLACES, "the web process", "address that writers report to",
        "SLUICE_REPORT_URL",
    ),
    NodeSetting(
        "SLUICE_STATIC_FOLDER", _PLACES, "<home>/static", "collected static files", "STATIC_ROOT"
    ),
    NodeSetting("SLUICE_DATABASE", _PLACES, "<home>/db.sqlite3", "the control plane's database"),
    NodeSetting(
        "SLUICE_DATABASE_POOL", _LIMITS, "16", "connections to PostgreSQL of the web process"
    ),
    NodeSetting(
        "SLUICE_DATABASE_PREPARED", _LIMITS, "1", "0 for poolers without prepared statements"
    ),
    NodeSetting("SLUICE_REDIS_URL", _PLACES, "the node's own", "Redis", "SLUICE_REDIS_URL"),
    NodeSetting("SLUICE_LOCK_URL", _PLACES, "none", "database or Redis of table locks"),
    NodeSetting(
        "SLUICE_SPARK_REMOTE", _PLACES, "the node's own", "the Spark Connect server",
        "SLUICE_SPARK_REMOTE",
    ),
    NodeSetting(
        "SLUICE_SPARK_UI_URL", _PLACES, "none", "pages of that Spark", "SLUICE_SPARK_UI_URL"
    ),
    NodeSetting(
        "SLUICE_ALLOWED_HOSTS", _PLACES, "loopback", "names under which pages answer",
        "ALLOWED_HOSTS",
    ),
    NodeSetting(
        "SLUICE_TRUSTED_ORIGINS", _PLACES, "none", "addresses whose forms count",
        "CSRF_TRUSTED_ORIGINS",
    ),
    NodeSetting("SLUICE_TRUSTED_PROXIES", _PLACES, "none", "proxies whose headers count"),
    NodeSetting("SLUICE_HTTPS", _PLACES, "off", "behind a proxy that speaks TLS"),
    NodeSetting(
        "SLUICE_OUTGOING_ALLOWED", _PLACES, "none", "receivers inside that may be sent something"
    ),
    NodeSetting("SLUICE_EMAIL_HOST", _PEOPLE, "none", "mail server of channels", "EMAIL_HOST"),
    NodeSetting("SLUICE_EMAIL_PORT", _PEOPLE, "587", "its port", "EMAIL_PORT"),
    NodeSetting("SLUICE_EMAIL_TLS", _PEOPLE, "starttls", "how it is spoken to"),
    NodeSetting("SLUICE_EMAIL_USER", _PEOPLE, "none", "who signs in there", "EMAIL_HOST_USER"),
    NodeSetting(
        "SLUICE_EMAIL_FROM", _PEOPLE, "sluice@<host>", "the sender of mail", "DEFAULT_FROM_EMAIL"
    ),
    NodeSetting("SLUICE_EMAIL_PASSWORD", _SECRETS, "none", "of the mail server", is_secret=True),
    NodeSetting("SLUICE_SECRET_KEY", _SECRETS, "made", "signs sessions", is_secret=True),
    NodeSetting("SLUICE_WORKER_TOKEN", _SECRETS, "made", "of workers' reports", is_secret=True),
    NodeSetting("SLUICE_MARKER_SECRET", _SECRETS, "made", "of marker tokens", is_secret=True),
    NodeSetting("SLUICE_METRICS_TOKEN", _SECRETS, "made", "of a scrape", is_secret=True),
    NodeSetting("SLUICE_OIDC_ISSUER", _PEOPLE, "none", "the provider of logins"),
    NodeSetting("SLUICE_OIDC_CLIENT_ID", _PEOPLE, "none", "who it is told that we are"),
    NodeSetting("SLUICE_OIDC_NAME", _PEOPLE, "single sign-on", "what its button says"),
    NodeSetting("SLUICE_OIDC_SCOPES", _PEOPLE, "openid email profile", "what it is asked for"),
    NodeSetting("SLUICE_OIDC_ALGORITHM", _PEOPLE, "RS256", "by which it signs"),
    NodeSetting("SLUICE_OIDC_GROUPS_CLAIM", _PEOPLE, "groups", "where it names groups"),
    NodeSetting("SLUICE_OIDC_GROUPS", _PEOPLE, "none", "its groups that are groups here"),
    NodeSetting("SLUICE_OIDC_ROLES", _PEOPLE, "none", "its groups that give roles"),
    NodeSetting("SLUICE_OIDC_EMAIL_DOMAINS", _PEOPLE, "any", "whose people are let in"),
    NodeSetting("SLUICE_OIDC_MAKES_USERS", _PEOPLE, "on", "whether it makes users"),
    NodeSetting("SLUICE_OIDC_CLIENT_SECRET_FILE", _PEOPLE, "none", "where its secret lies"),
    NodeSetting("SLUICE_OIDC_CLIENT_SECRET", _SECRETS, "none", "shown to it", is_secret=True),
    NodeSetting(
        "SLUICE_TOKEN_DAYS", _PEOPLE, "90", "for how many days a token is good", "SLUICE_TOKEN_DAYS"
    ),
    NodeSetting(
        "SLUICE_TOKEN_DAYS_MAX", _PEOPLE, "365", "at most", "SLUICE_TOKEN_DAYS_MAX"
    ),
    NodeSetting("SLUICE_MEMORY_MB", _LIMITS, "4096", "memory of the web process and mirrors"),
    NodeSetting(
        "SLUICE_MARKER_PROBE_TIMEOUT_S", _LIMITS, "1", "seconds for an answer of the marker server",
        "SLUICE_MARKER_PROBE_TIMEOUT_S",
    ),
    NodeSetting(
        "SLUICE_MARKER_START_TIMEOUT_S", _LIMITS, "5", "seconds for a start of the marker server",
        "SLUICE_MARKER_START_TIMEOUT_S",
    ),
    NodeSetting(
        "SLUICE_MARKER_DRAIN_TIMEOUT_S", _LIMITS, "10", "seconds for a drain of the marker server",
        "SLUICE_MARKER_DRAIN_TIMEOUT_S",
    ),
    NodeSetting(
        "SLUICE_MARKER_INTERVAL_MS", _LIMITS, "none", "milliseconds between batches of markers",
        "SLUICE_MARKER_INTERVAL_MS",
    ),
    NodeSetting(
        "SLUICE_MARKER_THREADS", _LIMITS, "20", "marker files of an instant, written in parallel",
        "SLUICE_MARKER_THREADS",
    ),
    NodeSetting(
        "SLUICE_REDIS_TIMEOUT_S", _LIMITS, "2", "seconds for an answer of Redis",
        "SLUICE_REDIS_TIMEOUT_S",
    ),
    NodeSetting(
        "SLUICE_STALE_AFTER_S", _LIMITS, "120", "after how many seconds a table is old",
        "SLUICE_STALE_AFTER_S",
    ),
    NodeSetting(
        "SLUICE_FRESHNESS_TARGET_MIN", _LIMITS, "1440",
        "target in minutes for the newest commit of a table without a threshold; 0: none",
        "SLUICE_FRESHNESS_TARGET_MIN",
    ),
    NodeSetting("SLUICE_SQL_MEMORY_MB", _LIMITS, "1024", "memory of a person's statement"),
    NodeSetting("SLUICE_SQL_SECONDS", _LIMITS, "20", "seconds of a person's statement"),
    NodeSetting("SLUICE_SQL_PER_USER", _LIMITS, "2", "statements of a person at once"),
    NodeSetting("SLUICE_SQL_PER_NODE", _LIMITS, "4", "statements of all at once"),
    NodeSetting("SLUICE_SQL_WRITE_MEMORY_MB", _LIMITS, "2048", "memory of a write's statement"),
    NodeSetting("SLUICE_SQL_WRITE_SECONDS", _LIMITS, "600", "seconds of a write's statement"),
    NodeSetting("SLUICE_SQL_WRITE_ROWS", _LIMITS, "50000000", "rows of a write's statement"),
    NodeSetting("SLUICE_SQL_WRITE_MB", _LIMITS, "2048", "megabytes of a write's statement"),
    NodeSetting(
        "SLUICE_LIVE_STREAMS_MAX", _LIMITS, "1200", "live streams at once, of each web process",
        "SLUICE_LIVE_STREAMS_MAX",
    ),
    NodeSetting(
        "SLUICE_METRICS_TABLES_MAX", _LIMITS, "500", "tables with labels of their own in /metrics",
        "SLUICE_METRICS_TABLES_MAX",
    ),
    NodeSetting(
        "SLUICE_MIRROR_FILE_GROUPS_MAX", _LIMITS, "20000",
        "file groups of a table with a row of their own; the others are summed",
        "SLUICE_MIRROR_FILE_GROUPS_MAX",
    ),
    NodeSetting(
        "SLUICE_OPERATION_DAYS", _LIMITS, "365", "days until an ended operation is deleted",
        "SLUICE_OPERATION_DAYS",
    ),
    NodeSetting(
        "SLUICE_OPERATION_LOG_LINES", _LIMITS, "5000", "lines kept of an operation's log",
        "SLUICE_OPERATION_LOG_LINES",
    ),
    NodeSetting(
        "SLUICE_OPERATION_LOG_DAYS", _LIMITS, "14", "for how many days", "SLUICE_OPERATION_LOG_DAYS"
    ),
    NodeSetting("SLUICE_DEMO", _OTHERS, "on", "whether this node has the demo", "SLUICE_DEMO"),
    NodeSetting("SLUICE_INPUT_MODULES", _OTHERS, "none", "further kinds of sources"),
    NodeSetting("SLUICE_LOG_LEVEL", _OTHERS, "INFO", "from which level on is logged"),
    NodeSetting("SLUICE_LOG_FORMAT", _OTHERS, "text", "text, or json"),
    NodeSetting("SLUICE_TRACES", _OTHERS, "off", "whether traces are made"),
    NodeSetting("OTEL_EXPORTER_OTLP_ENDPOINT", _OTHERS, "none", "collector of traces"),
    NodeSetting("JAVA_HOME", _OTHERS, "java on the path", "which Java runs Spark"),
    NodeSetting("SPARK_LOCAL_IP", _OTHERS, "127.0.0.1", "address that Spark binds to"),
    NodeSetting("JAVA_TOOL_OPTIONS", _OTHERS, "none", "options of every Java machine"),
)  # fmt: skip


def effective_settings(environ: Mapping[str, str]) -> list[SettingRow]:
    """Settings of the process that has this environment, in the order of `NODE_SETTINGS`."""
    places = Places(Path(settings.SLUICE_HOME))
    identity = read_identity(places.identity)
    written = settings_of({}, places, identity) if identity is not None else {}
    secrets = _made_secrets(places)
    masker = Masker(secret_values(environ, secrets))
    return [
        SettingRow(
            setting=setting,
            shown=_shown(setting, environ, masker),
            source=_source(setting, environ, written, secrets),
        )
        for setting in NODE_SETTINGS
    ]


def _shown(setting: NodeSetting, environ: Mapping[str, str], masker: Masker) -> str:
    given = environ.get(setting.name) or ""
    if setting.is_secret:
        return "set, not shown" if given or setting.name in _MADE else "not set"
    if given:
        return masker.mask(given)
    held = getattr(settings, setting.held_as) if setting.held_as else setting.default
    if isinstance(held, list | tuple):
        held = ", ".join(map(str, held)) or "none"
    return masker.mask(str(held)) or setting.default


def _source(
    setting: NodeSetting,
    environ: Mapping[str, str],
    written: Mapping[str, str],
    secrets: Mapping[str, str],
) -> Source:
    """The node hands what its files say to its processes by their environment, so a variable that
    says what the file does is the file's.
    """
    given = environ.get(setting.name) or ""
    if setting.name in _MADE:
        return "secrets.json" if given in ("", secrets.get(setting.name)) else "environment"
    if not given:
        return "default"
    return "node.json" if written.get(setting.name) == given else "environment"


def _made_secrets(places: Places) -> Mapping[str, str]:
    """Those of the node's file, by the variables that win over them."""
    made = read_secrets(places.secrets)
    return {name: getattr(made, column) for name, column in _MADE.items()} if made else {}
