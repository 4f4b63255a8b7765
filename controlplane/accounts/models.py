"""Models of grants, of identities at a provider, and of API tokens. A grant is the role of a user
or user group in a namespace or on a table.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Q
from django.utils import timezone
from knox.settings import CONSTANTS

from controlplane.accounts.access_levels import GRANTED, SCOPES, TokenLimits


class Grant(models.Model):
    """A role of either a user or a group, either in a namespace or on a table. Constraints of the
    database enforce both.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="grants"
    )
    group = models.ForeignKey(Group, null=True, on_delete=models.CASCADE, related_name="grants")
    role = models.CharField(max_length=16, choices=[(role, role) for role in GRANTED])
    namespace = models.SlugField(max_length=64, blank=True)
    """Empty for a grant on a table. The namespace may have no tables yet."""
    table = models.ForeignKey(
        "tables.Table", null=True, on_delete=models.CASCADE, related_name="grants"
    )
    granted_at = models.DateTimeField(auto_now_add=True)
    granted_by = models.CharField(max_length=150)
    """The name of a user, or of the account in the shell."""

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=True) ^ Q(group__isnull=True), name="grant_of_one_holder"
            ),
            models.CheckConstraint(
                condition=Q(namespace="") ^ Q(table__isnull=True), name="grant_at_one_place"
            ),
            models.CheckConstraint(condition=Q(role__in=GRANTED), name="grant_of_a_role"),
            models.UniqueConstraint(
                fields=["user", "namespace"],
                condition=Q(user__isnull=False, table__isnull=True),
                name="one_role_of_user_in_namespace",
            ),
            models.UniqueConstraint(
                fields=["user", "table"],
                condition=Q(user__isnull=False, table__isnull=False),
                name="one_role_of_user_on_table",
            ),
            models.UniqueConstraint(
                fields=["group", "namespace"],
                condition=Q(group__isnull=False, table__isnull=True),
                name="one_role_of_group_in_namespace",
            ),
            models.UniqueConstraint(
                fields=["group", "table"],
                condition=Q(group__isnull=False, table__isnull=False),
                name="one_role_of_group_on_table",
            ),
        ]

    def __str__(self) -> str:
        holder = self.user if self.user is not None else f"group {self.group}"
        place = self.table if self.table is not None else f"namespace {self.namespace}"
        return f"{holder}: {self.role}, {place}"


class ProviderIdentity(models.Model):
    """The subject with which a user signs in through an OpenID Connect provider."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="provider_identity"
    )
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)
    """The provider's identifier of the user, which is never reassigned."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="one_user_of_subject")
        ]

    def __str__(self) -> str:
        return f"{self.user}: {self.subject} at {self.issuer}"


class Token(models.Model):
    """An API token. Only a hash of its secret is stored, by which Knox finds it. It has the current
    roles of its owner, reduced to `limits`.
    """

    digest = models.CharField(max_length=CONSTANTS.DIGEST_LENGTH, primary_key=True)
    token_key = models.CharField(
        max_length=CONSTANTS.MAXIMUM_TOKEN_PREFIX_LENGTH + CONSTANTS.TOKEN_KEY_LENGTH, db_index=True
    )
    """The first characters of the token."""
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="auth_token_set"
    )
    name = models.CharField(max_length=100, blank=True)
    scope = models.CharField(max_length=16, choices=[(scope, scope) for scope in SCOPES])
    namespaces = models.JSONField(default=list)
    table_keys = models.JSONField(default=list)
    """Primary keys of tables, which are never reused. If both lists are empty, the token is not
    limited to namespaces or tables.
    """
    created = models.DateTimeField(default=timezone.now)
    expiry = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    """Precise to one minute."""

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(scope__in=SCOPES), name="token_of_a_scope")
        ]

    def __str__(self) -> str:
        return f"{self.user}: {self.token_key}"

    @property
    def limits(self) -> TokenLimits:
        return TokenLimits(
            scope=self.scope,
            namespaces=frozenset(self.namespaces),
            table_keys=frozenset(self.table_keys),
        )
