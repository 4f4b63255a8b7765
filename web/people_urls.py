"""Addresses of login, people, roles, tokens and the audit."""

from __future__ import annotations

from django.urls import path

from web.pages import access, audit, groups, password, people, provider, tokens

urlpatterns = [
    path("login/", provider.SignInView.as_view(), name="login"),
    path("login/oidc/", provider.StartView.as_view(), name="oidc-start"),
    path("login/oidc/callback/", provider.CallbackView.as_view(), name="oidc-callback"),
    path("login/oidc/leave/", provider.leave_provider, name="oidc-leave"),
    path("logout/", provider.SignOutView.as_view(), name="logout"),
    path("access", access.access, name="access"),
    path("access/rows", access.access_rows, name="access-rows"),
    path("access/rows/<int:grant_id>/take", access.access_rows_take, name="access-rows-take"),
    path("access/<int:grant_id>/take", access.access_take, name="access-take"),
    path("people", people.people_page, name="people"),
    path("people/<int:user_key>", people.person_page, name="person"),
    path("people/<int:user_key>/roles", people.person_roles, name="person-roles"),
    path("people/<int:user_key>/lock", people.person_lock, name="person-lock"),
    path("people/<int:user_key>/unlock", people.person_unlock, name="person-unlock"),
    path("people/<int:user_key>/link", people.person_link, name="person-link"),
    path("people/groups", groups.group_create, name="group-create"),
    path("people/groups/<int:group_key>", groups.group, name="group"),
    path("people/groups/<int:group_key>/add", groups.group_add, name="group-add"),
    path("people/groups/<int:group_key>/remove", groups.group_remove, name="group-remove"),
    path("people/groups/<int:group_key>/delete", groups.group_delete, name="group-delete"),
    path("password/<uidb64>/<token>/", password.set_password, name="password"),
    path("tokens", tokens.tokens, name="tokens"),
    path("tokens/<slug:token_key>/revoke", tokens.token_revoke, name="token-revoke"),
    path("audit", audit.audit, name="audit"),
    path("audit/<int:event_id>", audit.audit_row, name="audit-row"),
]
