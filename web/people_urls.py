"""Addresses of what people may do and did: roles, and the audit."""

from __future__ import annotations

from django.urls import path

from web.pages import access, audit, tokens

urlpatterns = [
    path("access", access.access, name="access"),
    path("access/<int:grant_id>/take", access.access_take, name="access-take"),
    path("tokens", tokens.tokens, name="tokens"),
    path("tokens/<slug:token_key>/revoke", tokens.token_revoke, name="token-revoke"),
    path("audit", audit.audit, name="audit"),
    path("audit/<int:event_id>", audit.audit_row, name="audit-row"),
]
