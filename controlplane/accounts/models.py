"""Grant: a role of one person, or of one group of people, in one namespace or on one table."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Q

from controlplane.accounts.role_names import GRANTED


class Grant(models.Model):
    """Who has it and where it holds are one of two each; the database holds that."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="grants"
    )
    group = models.ForeignKey(Group, null=True, on_delete=models.CASCADE, related_name="grants")
    role = models.CharField(max_length=16, choices=[(role, role) for role in GRANTED])
    namespace = models.SlugField(max_length=64, blank=True)
    """Empty for a grant on a table. There need be no table in it yet."""
    table = models.ForeignKey(
        "tables.Table", null=True, on_delete=models.CASCADE, related_name="grants"
    )
    granted_at = models.DateTimeField(auto_now_add=True)
    granted_by = models.CharField(max_length=150)
    """The name of a user, or of who had the shell."""

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
