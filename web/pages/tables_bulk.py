"""One table service on several tables: each is asked for by itself, by the action that stands
behind its own page, with its own row in the audit. What is refused to one holds up no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST

from controlplane.errors import ControlPlaneError, InvalidRequest
from controlplane.operations.actions import do_request_service, permission_of
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.tables.access import access_table, may_see_some
from web.refusals import as_operation_id, explained, page, person, sentence_of

BULK_SERVICES: Final = ("compaction", "clean", "clustering", "archive")
"""What takes nothing away that readers were promised; all else wants the plan of each table."""
TABLES_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Outcome:
    slug: str
    url: str
    """Of the operation; empty where none was made."""
    refusal: str


@require_POST
@page
def bulk(request: HttpRequest) -> HttpResponse:
    """Run the service that the form names on the tables that it ticks."""
    if not may_see_some(person(request)):
        raise PermissionDenied("this requires the operator role")
    service, slugs = request.POST.get("service", ""), request.POST.getlist("table")
    key = as_operation_id(request.POST.get("idempotency_key", ""))
    if service not in BULK_SERVICES:
        raise InvalidRequest("this service does not run on several tables", service=service[:40])
    if not 0 < len(slugs) <= TABLES_MAX or len(set(slugs)) < len(slugs):
        raise InvalidRequest(f"select 1 to {TABLES_MAX} tables", ticked=len(slugs))
    if key is None:
        raise InvalidRequest("the form key is missing: reload the page")
    reason = request.POST.get("reason", "").strip()[:REASON_CHARS_MAX]
    outcomes = [_outcome(person(request), slug, service, reason, str(key)) for slug in slugs]
    context = {
        "page": "tables",
        "service": service,
        "outcomes": outcomes,
        "refused": sum(not outcome.url for outcome in outcomes),
    }
    return render(request, "pages/tables_bulk.html", context)


def _outcome(user: User, slug: str, service: str, reason: str, key: str) -> Outcome:
    try:
        table = access_table(user, slug, permission_of(service))
        # Of one form each table has a key of its own, so that sending it twice runs nothing twice.
        own_key = sha256(f"{key}\n{slug}".encode()).hexdigest()
        operation = do_request_service(
            table, service, {}, "", reason, "", user, idempotency_key=own_key
        )
    except ControlPlaneError as error:
        return Outcome(slug, "", explained(error))
    except PermissionDenied as error:
        return Outcome(slug, "", sentence_of(error))
    except Http404:
        return Outcome(slug, "", "Table not found.")
    return Outcome(slug, reverse("operation", args=[slug, operation.pk]), "")
