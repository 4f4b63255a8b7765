"""Preference: what one person chose for the pages, in one row, so that a page asks once."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Preference(models.Model):
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        primary_key=True,
        on_delete=models.CASCADE,
        related_name="preference",
    )
    time_zone = models.CharField(max_length=64, blank=True, default="")
    """Empty is UTC; else `browser`, or a zone's name."""
    columns = models.JSONField(null=True)
    """Of the list of tables, in order; null for those that it has by itself."""
    views = models.JSONField(default=list)
    """Of the list of tables: pairs of a name and a query of its address."""
    pins = models.JSONField(default=list)
    """Keys of tables, those that are no more among them."""

    def __str__(self) -> str:
        return f"what {self.user} chose"
