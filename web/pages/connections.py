"""Named connections: what they reach, who may use them, and a button to try. Admins change them."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from controlplane.connections.actions import (
    ConnectionWish,
    do_change_connection,
    do_create_connection,
    do_delete_connection,
    do_grant_connection,
    do_test_connection,
)
from controlplane.connections.kinds import KINDS, get_settings
from controlplane.connections.queries import (
    ConnectionRow,
    check_admin,
    connection_row,
    connection_rows,
)
from controlplane.errors import ControlPlaneError
from controlplane.tables.access import Permission, may_everywhere
from controlplane.tables.queries import namespaces_of
from web.refusals import explained, page, person, refusal_of

_TEXT_CHARS_MAX = 6_000
_LONG_CHARS_MAX = 100_000


class ConnectionForm(forms.Form):
    """The settings of one kind of connection; the control plane checks them."""

    name = forms.CharField(
        max_length=64,
        help_text="used in requests; cannot be changed",
        error_messages={"required": "Enter a name."},
    )
    drops_secrets = forms.BooleanField(required=False)

    def __init__(self, *args: Any, kind: str, row: ConnectionRow | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind, self.row = kind, row
        self.settings = get_settings(kind)
        if row is not None:
            del self.fields["name"]
        for setting in self.settings:
            stored = row is not None and setting.name in row.secrets
            hint = "stored; leave empty to keep" if stored else setting.hint
            self.fields[setting.name] = (
                forms.ChoiceField(
                    label=setting.label,
                    required=False,
                    choices=[(word, word or "none") for word in setting.choices],
                )
                if setting.choices
                else forms.CharField(
                    label=setting.label,
                    required=False,
                    help_text=hint,
                    max_length=_LONG_CHARS_MAX if setting.is_long else _TEXT_CHARS_MAX,
                )
            )

    @property
    def setting_fields(self) -> list[tuple[Any, forms.BoundField]]:
        """Return each setting with its field."""
        return [(setting, self[setting.name]) for setting in self.settings]

    def wish(self) -> ConnectionWish:
        """Return the connection that a valid form asks for."""
        words = self.cleaned_data
        secrets = {
            setting.name: words[setting.name] for setting in self.settings if setting.is_secret
        }
        new_secrets = {name: text for name, text in secrets.items() if text}
        keeps = self.row is not None and not new_secrets and not words["drops_secrets"]
        return ConnectionWish(
            name=self.row.name if self.row is not None else words["name"],
            kind=self.kind,
            settings={
                setting.name: words[setting.name].replace("\r\n", "\n")
                for setting in self.settings
                if not setting.is_secret
            },
            secrets=None if keeps else new_secrets,
        )

    def show_error(self, error: ControlPlaneError) -> str:
        """Show the error next to its setting; return it if it concerns no field."""
        field = str(error.values.get("key", ""))
        if field not in self.fields:
            return explained(error)
        self.add_error(field, error.message)
        return ""


@require_safe
@page
def connections(request: HttpRequest) -> HttpResponse:
    user = person(request)
    context = {
        "page": "connections",
        "connections": connection_rows(user),
        "kinds": KINDS,
        "may_change": may_everywhere(user, Permission.ADMINISTER),
    }
    return render(request, "pages/connections.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def connection_new(request: HttpRequest) -> HttpResponse:
    check_admin(person(request))
    kind = request.GET.get("kind", "kafka")
    if kind not in KINDS:
        raise Http404("unknown kind of connection")
    data = request.POST if request.method == "POST" else None
    return _answer(request, ConnectionForm(data, kind=kind, row=None))


@require_http_methods(["GET", "HEAD", "POST"])
@page
def connection_change(request: HttpRequest, name: str) -> HttpResponse:
    check_admin(person(request))
    row = connection_row(person(request), name)
    if request.method == "POST":
        return _answer(request, ConnectionForm(request.POST, kind=row.kind, row=row))
    initial = {
        key: str(value).lower() if isinstance(value, bool) else value
        for key, value in (row.settings or {}).items()
    }
    return _answer(request, ConnectionForm(initial=initial, kind=row.kind, row=row))


@require_POST
@page
def connection_grants(request: HttpRequest, name: str) -> HttpResponse:
    names = request.POST.get("namespaces", "").replace(",", " ").split()
    try:
        row = do_grant_connection(name, names, by=person(request))
    except ControlPlaneError as error:
        messages.error(request, explained(error))
    else:
        words = f"{name} may be used in {', '.join(row.namespaces) or 'no namespace'}."
        messages.success(request, words)
    return redirect("connection-change", name)


@require_POST
@page
def connection_test(request: HttpRequest, name: str) -> HttpResponse:
    test = do_test_connection(name, by=person(request))
    if test.is_reached:
        messages.success(request, f"{name} is reachable; sign-in succeeded.")
    else:
        messages.error(request, f"{name} was not reached: {test.problem}")
    return redirect("connections")


@require_POST
@page
def connection_delete(request: HttpRequest, name: str) -> HttpResponse:
    try:
        do_delete_connection(name, by=person(request))
    except ControlPlaneError as error:
        messages.error(request, explained(error))
        return redirect("connection-change", name)
    messages.success(request, f"Connection {name} deleted.")
    return redirect("connections")


def _answer(request: HttpRequest, form: ConnectionForm) -> HttpResponse:
    """Return the form, or a redirect to the connection after a valid POST."""
    user = person(request)
    problem, status = "", 200
    if request.method == "POST" and form.is_valid():
        save = do_create_connection if form.row is None else do_change_connection
        try:
            row = save(form.wish(), by=user)
        except ControlPlaneError as error:
            problem, status = form.show_error(error), refusal_of(error).status
        else:
            messages.success(request, f"{row.name} saved. Test it, and grant it to namespaces.")
            return redirect("connection-change", row.name)
    elif request.method == "POST":
        status = 422
    context = {
        "page": "connections",
        "form": form,
        "connection": form.row,
        "kind": form.kind,
        "kinds": KINDS,
        "problem": problem,
        "namespaces": namespaces_of(user),
    }
    return render(request, "pages/connection.html", context, status=status)
