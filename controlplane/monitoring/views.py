"""`/healthz` and `/readyz`, which anybody may ask, and `/metrics`, for whoever has its token."""

from __future__ import annotations

from dataclasses import asdict

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from controlplane.monitoring.readiness import readiness
from controlplane.monitoring.scraping import scrape
from workers.installation import format_command

_SCHEME = "bearer "


@require_safe
@never_cache
def healthz(_request: HttpRequest) -> HttpResponse:
    """This process answers. Asks nothing of anybody else."""
    return JsonResponse({"status": "alive"})


@require_safe
@never_cache
def readyz(_request: HttpRequest) -> HttpResponse:
    """200 where every check is well, else 503; the same JSON both times."""
    checks = readiness()
    is_ready = all(check.is_well for check in checks)
    body = {"is_ready": is_ready, "checks": [asdict(check) for check in checks]}
    return JsonResponse(body, status=200 if is_ready else 503)


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """They name all tables, so no address is let in without the token: behind a proxy everybody
    comes from loopback.
    """
    if not _has_token(request.headers.get("Authorization", "")):
        refusal = (
            "this needs `Authorization: Bearer <token>`; "
            f"`{format_command('metrics --token')}` prints it\n"
        )
        answer = HttpResponse(refusal, status=401, content_type="text/plain")
        answer.headers["WWW-Authenticate"] = 'Bearer realm="metrics"'
        return answer
    return HttpResponse(scrape(), content_type=CONTENT_TYPE_LATEST)


def _has_token(header: str) -> bool:
    """Without a configured token nobody has it."""
    wanted = settings.SLUICE_METRICS_TOKEN
    if not wanted or not header.lower().startswith(_SCHEME):
        return False
    return constant_time_compare(header[len(_SCHEME) :].strip(), wanted)
