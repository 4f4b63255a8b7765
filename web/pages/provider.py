"""Signing in and out by an OpenID Connect provider: the library's views, with what is refused said
on the login page.
"""

from __future__ import annotations

import logging
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import BACKEND_SESSION_KEY
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from controlplane.people.oidc.backend import (
    ID_TOKEN,
    OidcBackend,
    get_library_setting,
    get_redirect_uri,
)
from controlplane.people.oidc.provider import LoginRejected, get_oidc_settings, load_provider

log = logging.getLogger(__name__)

LEFT = "left"
"""In the query of the login page: who came by the provider has signed out here, and not there."""
_BACKEND = f"{OidcBackend.__module__}.{OidcBackend.__qualname__}"


class SignInView(LoginView):
    """A name and a password, and a button for the provider where there is one."""

    template_name = "pages/login.html"

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        """What the template needs besides Django's own."""
        oidc = get_oidc_settings()
        return {
            **super().get_context_data(**kwargs),
            "provider": oidc.name if oidc is not None else "",
            "left_provider": oidc is not None and LEFT in self.request.GET,
        }


class SignOutView(LogoutView):
    """Ends the session here. Whoever came by the provider may end that one too, by a link."""

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """Leads to the login page."""
        came_by_provider = request.session.get(BACKEND_SESSION_KEY) == _BACKEND
        id_token = request.session.get(ID_TOKEN, "")
        answer = super().post(request, *args, **kwargs)
        if not came_by_provider:
            return answer
        # The session that ended took it along; the one that begins here knows nothing else.
        request.session[ID_TOKEN] = id_token
        return redirect(f"{settings.LOGIN_URL}?{LEFT}=1")


@method_decorator(never_cache, name="dispatch")
class StartView(OIDCAuthenticationRequestView):
    """To the provider, with a state, a nonce and a challenge that this session alone knows."""

    http_method_names = ["get", "head"]
    get_settings = staticmethod(get_library_setting)

    def __init__(self, **given: object) -> None:
        """Asks nobody: the provider is asked when somebody comes."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Http404 where there is no provider."""
        oidc = get_oidc_settings()
        if oidc is None:
            raise Http404("single sign-on is not configured")
        try:
            self.OIDC_OP_AUTH_ENDPOINT = load_provider(oidc).authorization
            self.OIDC_RP_CLIENT_ID = oidc.client_id
            answer: HttpResponse = super().get(request)
        except LoginRejected as error:
            return _refused(request, error.message)
        return answer

    def get_extra_params(self, request: HttpRequest) -> dict[str, str]:
        """The address that is registered at the provider, whatever this request calls the host."""
        del request
        return {"redirect_uri": get_redirect_uri()}


@method_decorator(never_cache, name="dispatch")
class CallbackView(OIDCAuthenticationCallbackView):
    """Back from the provider, with a code. The library checks the state, and that it comes once."""

    http_method_names = ["get", "head"]
    get_settings = staticmethod(get_library_setting)

    def get(self, request: HttpRequest) -> HttpResponse:
        """Signs in, or says on the login page why not. An error of the provider ends no session."""
        oidc = get_oidc_settings()
        if oidc is None:
            raise Http404("single sign-on is not configured")
        if said := request.GET.get("error", ""):
            log.warning("the provider rejected a login: error=%s", said[:100])
            return _refused(request, f"{oidc.name} rejected the sign-in")
        try:
            answer: HttpResponse = super().get(request)
        except LoginRejected as error:
            return _refused(request, error.message)
        except SuspiciousOperation as error:
            log.warning("login through the provider rejected: error=%s", error)
            return self.login_failure()
        return answer

    def login_success(self) -> HttpResponse:
        """With the id token in the session that begins now, which may be another one."""
        id_token = self.request.session.get(ID_TOKEN, "")
        answer: HttpResponse = super().login_success()
        self.request.session[ID_TOKEN] = id_token
        return answer

    def login_failure(self) -> HttpResponse:
        """Nothing that this session waits for: begun elsewhere, finished before, or too old."""
        return _refused(
            self.request, "this sign-in has expired or was started elsewhere; try again"
        )


@require_safe
@never_cache
def leave_provider(request: HttpRequest) -> HttpResponse:
    """To where the provider ends its own session; back to the login page where it has no such."""
    oidc = get_oidc_settings()
    if oidc is None:
        raise Http404("single sign-on is not configured")
    try:
        end = load_provider(oidc).end_session
    except LoginRejected as error:
        return _refused(request, error.message)
    if not end:
        return _refused(request, f"{oidc.name} has no sign-out address")
    back = f"{settings.SLUICE_PUBLIC_URL.rstrip('/')}{reverse('login')}"
    words = {"client_id": oidc.client_id, "post_logout_redirect_uri": back}
    if id_token := request.session.pop(ID_TOKEN, ""):
        words["id_token_hint"] = id_token
    return HttpResponseRedirect(f"{end}?{urlencode(words)}")


def _refused(request: HttpRequest, sentence: str) -> HttpResponse:
    messages.error(request, f"Not signed in: {sentence}.")
    return redirect(settings.LOGIN_URL)
