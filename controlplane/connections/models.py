"""Connection: the address, the TLS settings and the credentials of one Kafka cluster, bucket or
database. ConnectionGrant: a namespace whose operators may use it.
"""

from __future__ import annotations

from django.db import models

NAME_CHARS_MAX = 64


class Connection(models.Model):
    name = models.CharField(max_length=NAME_CHARS_MAX, unique=True)
    """Requests, schedules and sinks store it, so it never changes."""
    kind = models.CharField(max_length=16)
    settings = models.JSONField(default=dict)
    """Without secrets; a setting that is not given is absent."""
    sealed_secrets = models.TextField(blank=True, default="")
    """A JSON object, opened by `queries.connection_settings` alone. No answer contains it."""
    secret_names = models.JSONField(default=list)
    """The settings that it holds."""
    shown_address = models.CharField(max_length=500)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_by = models.CharField(max_length=150)
    changed_at = models.DateTimeField()
    tested_at = models.DateTimeField(null=True)
    """When it was tested last, with the settings of today; None where it was not."""
    tested_by = models.CharField(max_length=150, blank=True, default="")
    test_problem = models.CharField(max_length=500, blank=True, default="")
    """Empty where the last test succeeded."""

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


class ConnectionGrant(models.Model):
    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="grants")
    namespace = models.SlugField(max_length=64)
    """There need be no table in it yet."""
    granted_by = models.CharField(max_length=150)
    granted_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["namespace"]
        constraints = [
            models.UniqueConstraint(fields=["connection", "namespace"], name="one_grant_each")
        ]

    def __str__(self) -> str:
        return f"{self.connection} in {self.namespace}"
