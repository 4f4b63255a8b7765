"""Files sent from the browser, for a write or for a new table. Each page continues with the upload
as its source.
"""

from __future__ import annotations

from typing import Final

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_POST

from controlplane.errors import ControlPlaneError
from controlplane.tables.access import Permission, access_table, may_everywhere
from controlplane.uploads.queries import UploadRow, upload_row
from controlplane.uploads.request_body import UploadHandler, check_request
from web.pages.table_create import show_upload_problem as show_on_create
from web.pages.write import show_upload_problem as show_on_write
from web.refusals import page, person

KINDS: Final = ("csv", "json", "parquet")
FORBIDDEN: Final = 403


@csrf_exempt  # `_receive` checks it, after what must be checked before the body is read.
@require_POST
@page
def write_upload(request: HttpRequest, slug: str) -> HttpResponse:
    """Store a file for a write into the table, then show the form of the write with it."""
    table = access_table(person(request), slug, Permission.OPERATE)
    kind = _get_kind(request)
    answer = _receive(request, kind)
    if isinstance(answer, ControlPlaneError):
        return show_on_write(request, table, kind, answer)
    if isinstance(answer, HttpResponse):
        return answer
    query = urlencode({"kind": answer.kind or kind, "path": answer.path})
    return redirect(f"{reverse('table-write', args=[table.slug])}?{query}")


@csrf_exempt  # `_receive` checks it, after what must be checked before the body is read.
@require_POST
@page
def table_create_upload(request: HttpRequest) -> HttpResponse:
    """Store a file for a new table, then show what it suggests."""
    if not may_everywhere(person(request), Permission.ADMINISTER):
        raise PermissionDenied(f"this requires the {Permission.ADMINISTER.role} role")
    answer = _receive(request, _get_kind(request))
    if isinstance(answer, ControlPlaneError):
        return show_on_create(request, answer)
    if isinstance(answer, HttpResponse):
        return answer
    return redirect(f"{reverse('table-create')}?{urlencode({'path': answer.path})}")


def _get_kind(request: HttpRequest) -> str:
    kind = request.GET.get("kind", "csv")
    return kind if kind in KINDS else "csv"


def _receive(request: HttpRequest, kind: str) -> UploadRow | ControlPlaneError | HttpResponse:
    """Store the file of the form. Return the upload, why it is refused, or the answer to a request
    without a CSRF token. Size and disk are checked before the body is read.
    """
    handler = UploadHandler(person(request), kind)
    try:
        check_request(request, person(request))
        request.upload_handlers = [handler]
        refused: HttpResponse | None = _check_token(request)
        if refused is not None:
            handler.discard()
            return refused
        return upload_row(handler.take())
    except ControlPlaneError as error:
        handler.discard()
        return error
    except BaseException:
        handler.discard()
        raise


def _check_token(request: HttpRequest) -> HttpResponse | None:
    """Read the form, and return the answer to one without a valid CSRF token; else None."""
    answer: HttpResponse = csrf_protect(_read_form)(request)
    return answer if answer.status_code == FORBIDDEN else None


def _read_form(request: HttpRequest) -> HttpResponse:
    _ = request.POST
    return HttpResponse()
