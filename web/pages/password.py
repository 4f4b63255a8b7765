"""Setting a password by a link that an admin made. Django checks the link, which is good once."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import User
from django.contrib.auth.views import PasswordResetConfirmView
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from controlplane.errors import ControlPlaneError
from controlplane.people.actions.users import do_set_password


class PasswordView(PasswordResetConfirmView):
    """The link leads to an address without its secret, which then stands in the session."""

    template_name = "pages/password.html"

    def form_valid(self, form: SetPasswordForm[Any]) -> HttpResponse:
        """Set the password; who was locked out meanwhile sees it beside the form."""
        user = form.user
        assert isinstance(user, User), user
        try:
            do_set_password(user, form.cleaned_data["new_password1"], by=user.get_username())
        except ControlPlaneError as error:
            form.add_error(None, error.message)
            return self.form_invalid(form)
        del self.request.session["_password_reset_token"]
        messages.success(self.request, "Password set. Sign in with it.")
        return redirect("login")


set_password = require_http_methods(["GET", "HEAD", "POST"])(PasswordView.as_view())
