"""Table: a location somebody registered. What it says of itself is mirrored by the sync.

FormerSlug: where it was found before it was renamed. TableRequest: what was done to the register,
under the key that came with it.
"""

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


class FormerSlug(models.Model):
    """A slug that a table had; its addresses lead on to the table until another table takes it."""

    slug = models.SlugField(max_length=64, unique=True)
    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="former_slugs")
    left_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]
        verbose_name_plural = "former slugs"

    def __str__(self) -> str:
        return f"{self.slug} is {self.table}"


class TableRequest(models.Model):
    """A change of what is registered that somebody sent with an idempotency key, so that the same
    request is done once. It outlives the table.
    """

    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+"
    )
    idempotency_key = models.CharField(max_length=100)
    request_digest = models.CharField(max_length=64)
    """Of all that was asked for, so that a key cannot come with another request."""
    table_key = models.BigIntegerField()
    """The table's primary key, of which there may be no row any more."""
    done = models.JSONField(default=dict)
    """What was answered, where no row could answer it again."""
    at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["requested_by", "idempotency_key"], name="table_request_once_per_key"
            )
        ]

    def __str__(self) -> str:
        return f"{self.idempotency_key} of {self.requested_by}"
