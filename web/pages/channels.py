"""Channels: who is sent word of alerts, whether it arrived, and a button to try. For admins."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from controlplane.errors import ControlPlaneError
from controlplane.monitoring.alert_rules import TITLES
from controlplane.monitoring.channels.actions import (
    GROUP_S_MAX,
    NAME_CHARS_MAX,
    ChannelSpec,
    NewChannel,
    do_change_channel,
    do_create_channel,
    do_delete_channel,
    do_test_channel,
)
from controlplane.monitoring.channels.kinds import FORMATS, KINDS
from controlplane.monitoring.channels.queries import (
    ChannelRow,
    get_channel_row,
    list_channels,
    list_messages,
    require_admin,
)
from controlplane.monitoring.severities import SEVERITIES
from web.confirmation import Question, ask_first, is_confirmed
from web.refusals import explained, page, person, refusal_of


class ChannelForm(forms.Form):
    """A channel; the control plane checks the address."""

    name = forms.CharField(max_length=NAME_CHARS_MAX, help_text="shown in messages and logs")
    kind = forms.ChoiceField(choices=list(KINDS.items()))
    address = forms.CharField(
        max_length=2_000,
        required=False,
        help_text="mail addresses, https://… or discord://…; not shown again",
    )
    body_format = forms.ChoiceField(
        choices=[("", "not a webhook"), *FORMATS.items()], required=False
    )
    severity_min = forms.ChoiceField(
        choices=[(severity, severity) for severity in SEVERITIES], initial="warning"
    )
    checks = forms.MultipleChoiceField(choices=list(TITLES.items()), required=False)
    namespaces = forms.CharField(
        max_length=1_000, required=False, help_text="separated by commas; empty: all"
    )
    group_s = forms.IntegerField(
        min_value=0,
        max_value=GROUP_S_MAX,
        initial=60,
        help_text="seconds that a first alert waits for other tables of its rule",
    )
    sends_resolved = forms.BooleanField(required=False, initial=True)
    is_paused = forms.BooleanField(required=False)
    wants_new_secret = forms.BooleanField(required=False)

    def wish(self) -> ChannelSpec:
        """The channel that a valid form asks for."""
        words = dict(self.cleaned_data)
        del words["wants_new_secret"]
        names = [name.strip() for name in words.pop("namespaces").split(",")]
        return ChannelSpec(**words, namespaces=[name for name in names if name])


@require_safe
@page
def channels(request: HttpRequest) -> HttpResponse:
    return render(request, "pages/channels.html", {"page": "alerts", **_board(request)})


@require_safe
@page
def channel_messages(request: HttpRequest) -> HttpResponse:
    return render(request, "fragments/channel_messages.html", _board(request))


@require_http_methods(["GET", "HEAD", "POST"])
@page
def channel_new(request: HttpRequest) -> HttpResponse:
    require_admin(person(request))
    form = ChannelForm(request.POST if request.method == "POST" else None)
    return _edited(request, form, None)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def channel_change(request: HttpRequest, channel_id: int) -> HttpResponse:
    row = get_channel_row(person(request), channel_id)
    if request.method == "POST":
        return _edited(request, ChannelForm(request.POST), row)
    shown = {name: getattr(row, name) for name in ChannelForm.base_fields if hasattr(row, name)}
    shown |= {"address": "", "namespaces": ", ".join(row.namespaces)}
    return _edited(request, ChannelForm(initial=shown), row)


@require_POST
@page
def channel_test(request: HttpRequest, channel_id: int) -> HttpResponse:
    do_test_channel(channel_id, by=person(request))
    messages.success(request, "Test message queued. The result is listed below.")
    return redirect("channels")


@require_POST
@page
def channel_delete(request: HttpRequest, channel_id: int) -> HttpResponse:
    """After a question."""
    if not is_confirmed(request):
        row = get_channel_row(person(request), channel_id)
        question = Question(
            page="alerts",
            title=f"Delete the channel {row.name}?",
            facts=[
                ("Stops", "alerts are no longer sent to this channel, including waiting messages"),
                ("Deleted", "its address, its secret and its message log"),
                ("Kept", "alerts, alert rules and other channels"),
            ],
            button="Delete channel",
            back=reverse("channels"),
            takes_reason=False,
        )
        return ask_first(request, question)
    do_delete_channel(channel_id, by=person(request))
    messages.success(request, "Channel and messages deleted.")
    return redirect("channels")


def _board(request: HttpRequest) -> dict[str, Any]:
    user = person(request)
    return {"channels": list_channels(user), "sent_messages": list_messages(user), "titles": TITLES}


def _edited(request: HttpRequest, form: ChannelForm, row: ChannelRow | None) -> HttpResponse:
    """The form, or what became of it: a POST that is taken leads back, once for a secret."""
    context: dict[str, Any] = {"page": "alerts", "form": form, "channel": row, "problem": ""}
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            saved = _save(request, form, row)
        except ControlPlaneError as error:
            context["problem"], status = explained(error), refusal_of(error).status
        else:
            if not saved.secret:
                messages.success(request, f"{saved.channel.name} saved.")
                return redirect("channels")
            shown = {"page": "alerts", "saved": saved}
            return render(request, "pages/channel_secret.html", shown)
    elif request.method == "POST":
        status = 422
    return render(request, "pages/channel.html", context, status=status)


def _save(request: HttpRequest, form: ChannelForm, row: ChannelRow | None) -> NewChannel:
    if row is None:
        return do_create_channel(form.wish(), by=person(request))
    return do_change_channel(
        row.id,
        form.wish(),
        by=person(request),
        wants_new_secret=form.cleaned_data["wants_new_secret"],
    )
