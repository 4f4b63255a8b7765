"""Table: a location somebody registered. What it says of itself is mirrored by the sync."""

from __future__ import annotations

from django.conf import settings
from django.db import models

DEFAULT_NAMESPACE = "default"
"""Where a table is registered when nobody says otherwise."""


class Table(models.Model):
    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=200)
    namespace = models.SlugField(max_length=64, default=DEFAULT_NAMESPACE)
    """The group of tables in which people are given roles."""
    location = models.CharField(max_length=700, unique=True)
    """Absolute, resolved, without a trailing slash, inside a configured root; no two tables
    overlap.
    """
    table_type = models.CharField(max_length=16, blank=True)
    table_version = models.PositiveSmallIntegerField(default=0)
    record_key = models.CharField(max_length=500, blank=True)
    partition_by = models.CharField(max_length=500, blank=True)
    ordering = models.CharField(max_length=500, blank=True)
    bucket_count = models.PositiveIntegerField(null=True)
    index_type = models.CharField(max_length=16, blank=True)
    """As `hoodie.index.type` names it; empty for one that Sluice does not write by."""
    lock_provider = models.CharField(max_length=16, blank=True)
    """What keeps its writers apart, as `hoodie.write.lock.provider` names it."""
    is_foreign = models.BooleanField(default=False)
    """Another engine made it."""
    write_refusal = models.CharField(max_length=500, blank=True)
    """Why Sluice does not write into it; empty when it does."""
    groups = models.JSONField(default=list)
    """Declared column groups, as `hoodie.multistream.groups` writes them."""
    join_needs = models.JSONField(default=list)
    """Names of the groups without which a row is not shown."""
    properties = models.JSONField(default=dict)
    """What `hoodie.properties` said at the last sync."""
    property_changes = models.JSONField(default=list)
    """What others changed there since it was first read: see `mirror/apply_properties.py`."""
    overtaken = models.JSONField(default=list)
    """Commits that were published while another engine changed it, with what it changed."""
    time_units = models.CharField(max_length=2000, blank=True)
    """What numbers of its ordering columns count, as `sluice.event.time.unit` declares it."""
    registered_at = models.DateTimeField(auto_now_add=True)
    registered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    synced_at = models.DateTimeField(null=True)
    sync_error = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug
