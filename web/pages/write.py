"""One write into a table: from where, with a look at what it would bring, then the operation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods

from controlplane.errors import ControlPlaneError
from controlplane.operations.actions import (
    do_request_again,
    do_request_write,
    load_parameters,
)
from controlplane.operations.descriptions.write import FILES, PLANNED_OPERATIONS
from controlplane.operations.planned_writes import planned_parameters
from controlplane.operations.queries import access_operation
from controlplane.operations.requesting import Given
from controlplane.operations.source_previews import SourcePreview, preview_source
from controlplane.tables.access import Permission, access_table, may
from controlplane.uploads.places import is_upload
from web.refusals import as_operation_id, explained, page, person, refusal_of, sentence_of
from web.upload_form import build_upload_form
from web.write_forms import (
    ADDRESS_CHARS_MAX,
    SOURCES,
    WriteForm,
    build_initial,
)

if TYPE_CHECKING:
    from controlplane.operations.models import Operation
    from controlplane.tables.models import Table

_PREFILLED: Final = (
    *("path", "missing", "statement", "topic", "connection", "bootstrap", "operation", "stream"),
    *("table", "query"),
)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def write(request: HttpRequest, slug: str) -> HttpResponse:
    """A POST looks at the source (`deed=preview`), hands all of it on to the form of a schedule
    (`deed=schedule`), or asks for the write.
    """
    is_sent = request.method == "POST"
    table = access_table(person(request), slug, Permission.OPERATE if is_sent else Permission.VIEW)
    kind = request.GET.get("kind", "csv")
    kind = kind if kind in SOURCES else "csv"
    namespace = table.namespace if may(person(request), Permission.OPERATE, table) else ""
    if not is_sent:
        initial = {name: request.GET[name] for name in _PREFILLED if name in request.GET}
        if "again" in request.GET:
            kind, initial = _load_earlier(request, table)
        form = WriteForm(kind=kind, initial=initial, namespace=namespace)
        uploaded = _preview_upload(request, table, kind, str(initial.get("path") or ""))
        return _shown(request, table, form, uploaded)
    form = WriteForm(request.POST, kind=kind, namespace=namespace)
    if not form.is_valid():
        return _shown(request, table, form, _Answer(status=422))
    answer = _carried_out(request, table, form)
    return _shown(request, table, form, answer) if isinstance(answer, _Answer) else answer


def show_upload_problem(
    request: HttpRequest, table: Table, kind: str, error: ControlPlaneError
) -> HttpResponse:
    """Show the form after a file that was refused."""
    form = WriteForm(kind=kind, namespace=table.namespace)
    answer = _Answer(status=refusal_of(error).status, problem=refusal_of(error).text)
    return _shown(request, table, form, answer)


def _preview_upload(request: HttpRequest, table: Table, kind: str, path: str) -> _Answer | None:
    """Return the preview of a file that was just uploaded; None for any other source."""
    if kind not in FILES or not is_upload(path):
        return None
    if not may(person(request), Permission.OPERATE, table):
        return None
    try:
        preview = preview_source(table, {"kind": kind, "path": path}, by=person(request))
    except ControlPlaneError as error:
        return _Answer(status=refusal_of(error).status, problem=explained(error))
    return _Answer(preview=preview)


def _load_earlier(request: HttpRequest, table: Table) -> tuple[str, dict[str, Any]]:
    """Return the kind of source and the fields of the write that is rerun. Raises Http404."""
    earlier = _find_write(request, table, as_operation_id(request.GET["again"]))
    parameters = load_parameters(earlier, person(request))
    kind = str(parameters["source"].get("kind"))
    if kind not in SOURCES:
        raise Http404(f"no form for sources of the kind {kind}")
    return kind, {**build_initial(parameters), "again": earlier.pk}


def _find_write(request: HttpRequest, table: Table, operation_id: UUID | None) -> Operation:
    if operation_id is not None:
        operation = access_operation(person(request), operation_id, Permission.VIEW)
        if operation.table.slug == table.slug and operation.kind == "write":
            return operation
    raise Http404("write not found in this table")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What is shown beside the form."""

    status: int = 200
    problem: str = ""
    preview: SourcePreview | None = None


def _carried_out(request: HttpRequest, table: Table, form: WriteForm) -> HttpResponse | _Answer:
    """Of a form that is valid; what is refused stands at the form."""
    user, deed = person(request), request.POST.get("deed")
    try:
        if deed == "preview":
            words = form.cleaned_data
            preview = preview_source(
                table,
                form.source,
                by=user,
                operation=words["operation"],
                stream=words["stream"] or None,
            )
            return _Answer(preview=preview)
        if deed == "schedule":
            return _to_a_schedule(table, form)
        if form.cleaned_data["operation"] in PLANNED_OPERATIONS:
            return _to_its_plan(table, form)
        operation = _request(request, table, form)
    except PermissionDenied as error:
        return _Answer(status=403, problem=sentence_of(error))
    except ControlPlaneError as error:
        return _Answer(status=refusal_of(error).status, problem=form.refuse(error))
    return redirect("operation", table.slug, operation.pk)


def _request(request: HttpRequest, table: Table, form: WriteForm) -> Operation:
    user, words = person(request), form.cleaned_data
    reason, key = words["reason"], str(words["idempotency_key"])
    if words["again"] is None:
        return do_request_write(
            table=table, parameters=form.parameters, by=user, reason=reason, idempotency_key=key
        )
    earlier = _find_write(request, table, words["again"])
    request_words = Given(reason=reason, idempotency_key=key)
    return do_request_again(earlier, form.changes, request_words, user)


def _to_its_plan(table: Table, form: WriteForm) -> HttpResponse:
    """What takes data away is confirmed where its plan is shown."""
    service = form.cleaned_data["operation"]
    parameters = planned_parameters(service, source=form.source, partitions=())
    address = reverse("service", args=[table.slug, service])
    return redirect(f"{address}?{urlencode(parameters)}")


def _to_a_schedule(table: Table, form: WriteForm) -> HttpResponse | _Answer:
    query = urlencode({"parameters": json.dumps(form.parameters, indent=2)})
    if len(query) > ADDRESS_CHARS_MAX:
        words = "The parameters are too long to pass on. Enter them in the schedule form."
        return _Answer(status=422, problem=words)
    return redirect(f"{reverse('schedule-new', args=[table.slug])}?{query}")


def _shown(
    request: HttpRequest, table: Table, form: WriteForm, answer: _Answer | None = None
) -> HttpResponse:
    answer = answer or _Answer()
    may_operate = may(person(request), Permission.OPERATE, table)
    upload = None
    if may_operate and form.kind in FILES:
        address = f"{reverse('table-upload', args=[table.slug])}?kind={form.kind}"
        upload = build_upload_form(request, address, str(form["path"].value() or ""))
    context = {
        "page": "writers",
        "table": table,
        "form": form,
        "sources": SOURCES,
        "problem": answer.problem,
        "preview": answer.preview,
        "again": form["again"].value(),
        "may_operate": may_operate,
        "upload": upload,
    }
    return render(request, "pages/table_write.html", context, status=answer.status)
