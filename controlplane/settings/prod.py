"""What `make up` and a production node run. Refuses to start without secrets."""

from __future__ import annotations

import os

from django.core.exceptions import ImproperlyConfigured

from controlplane.settings.base import *  # noqa: F403  (Django settings are composed by star import)
from controlplane.settings.base import SECRET_KEY, SLUICE_HOME
from workers.installation import format_command

if not SECRET_KEY:
    raise ImproperlyConfigured(
        f"no secret key: run `{format_command('up')}`, set SLUICE_SECRET_KEY, or write "
        f"{SLUICE_HOME}/secrets.json"
    )

_HTTPS = os.environ.get("SLUICE_HTTPS") == "1"
SESSION_COOKIE_SECURE = _HTTPS
CSRF_COOKIE_SECURE = _HTTPS
SECURE_SSL_REDIRECT = _HTTPS
# Monitoring and writers, on this machine or on the network of the node, speak no TLS to it.
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$", r"^api/v1/reports/"]
SECURE_HSTS_SECONDS = 31_536_000 if _HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = _HTTPS
SECURE_HSTS_PRELOAD = _HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _HTTPS else None
