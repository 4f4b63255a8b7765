"""The views `/healthz` and `/readyz`, without authentication, and `/metrics`, with a token."""

from __future__ import annotations

from dataclasses import asdict

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from controlplane.monitoring.exposition import scrape
from controlplane.monitoring.readiness import check_readiness
from workers.installation import format_command

_SCHEME = "bearer "


@require_safe
@never_cache
def healthz(_request: HttpRequest) -> HttpResponse:
    """Report that this process answers. Uses no other service."""
    return JsonResponse({"status": "alive"})


@require_safe
@never_cache
def readyz(_request: HttpRequest) -> HttpResponse:
    """Return the checks as JSON, with status 200 if all succeed, else 503."""
    checks = check_readiness()
    is_ready = all(check.is_well for check in checks)
    body = {"is_ready": is_ready, "checks": [asdict(check) for check in checks]}
    return JsonResponse(body, status=200 if is_ready else 503)


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics. They contain all table names, so every address needs the token: behind a
    proxy all requests come from loopback.
    """
    if not _has_token(request.headers.get("Authorization", "")):
        refusal = (
            "this requires `Authorization: Bearer <token>`; "
            f"`{format_command('metrics --token')}` prints the token\n"
        )
        answer = HttpResponse(refusal, status=401, content_type="text/plain")
        answer.headers["WWW-Authenticate"] = 'Bearer realm="metrics"'
        return answer
    return HttpResponse(scrape(), content_type=CONTENT_TYPE_LATEST)


def _has_token(header: str) -> bool:
    """Return whether the header has the token; false if none is configured."""
    expected = settings.SLUICE_METRICS_TOKEN
    if not expected or not header.lower().startswith(_SCHEME):
        return False
    return constant_time_compare(header[len(_SCHEME) :].strip(), expected)
