"""Table: a location somebody registered. What it says of itself is mirrored by the sync.

FormerSlug: where it was found before it was renamed. TableRequest: what was done to the register,
under the key that came with it. RowGrant: who reads rows, and where. MaskedColumn: what of a row
most of them do not see.
"""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower

READS_ROWS: Final = "rows"
SEES_MASKED: Final = "masked"
ROW_RIGHTS: Final = (READS_ROWS, SEES_MASKED)
"""The second has all that the first has, and sees masked columns besides."""
COLUMN_CHARS_MAX = 500
DEFAULT_NAMESPACE = "default"
"""Where a table is registered when nobody says otherwise."""


class Table(models.Model):
    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=200)
    namespace = models.SlugField(
        max_length=64, default=DEFAULT_NAMESPACE, db_default=DEFAULT_NAMESPACE
    )
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
    owner = models.CharField(max_length=150, blank=True, default="", db_default="")
    """Whom to ask about it: a person or a team, as somebody wrote it down."""
    tags = models.CharField(max_length=300, blank=True, default="", db_default="")
    """Words that it is filtered by, in order, with a space between two."""
    description = models.CharField(max_length=500, blank=True, default="", db_default="")
    """What the table holds, in one paragraph."""
    load_options = models.JSONField(default=dict, db_default={})
    """How its last file was read: options of `workers.loading` as texts, for the next one."""
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


class RowGrant(models.Model):
    """The right of one person, or of one group of people, to read rows: of one table, of all tables
    in one namespace, or of every table. It shows nobody a table whom no role lets see it.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="row_grants"
    )
    group = models.ForeignKey(Group, null=True, on_delete=models.CASCADE, related_name="row_grants")
    right = models.CharField(max_length=16, choices=[(right, right) for right in ROW_RIGHTS])
    namespace = models.SlugField(max_length=64, blank=True)
    """With `table` empty too: everywhere."""
    table = models.ForeignKey(Table, null=True, on_delete=models.CASCADE, related_name="row_grants")
    granted_at = models.DateTimeField(auto_now_add=True)
    granted_by = models.CharField(max_length=150)
    """The name of a user, or of who had the shell."""

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=True) ^ Q(group__isnull=True),
                name="row_grant_of_one_holder",
            ),
            models.CheckConstraint(
                condition=Q(namespace="") | Q(table__isnull=True), name="row_grant_at_one_place"
            ),
            models.CheckConstraint(condition=Q(right__in=ROW_RIGHTS), name="row_grant_of_a_right"),
            models.UniqueConstraint(
                fields=["user", "namespace"],
                condition=Q(user__isnull=False, table__isnull=True),
                name="row_grant_of_user_once",
            ),
            models.UniqueConstraint(
                fields=["user", "table"],
                condition=Q(user__isnull=False, table__isnull=False),
                name="row_grant_of_user_on_table_once",
            ),
            models.UniqueConstraint(
                fields=["group", "namespace"],
                condition=Q(group__isnull=False, table__isnull=True),
                name="row_grant_of_group_once",
            ),
            models.UniqueConstraint(
                fields=["group", "table"],
                condition=Q(group__isnull=False, table__isnull=False),
                name="row_grant_of_group_on_table_once",
            ),
        ]

    def __str__(self) -> str:
        holder = self.user if self.user is not None else f"group {self.group}"
        return f"{holder}: {self.right}, {self.table or self.namespace or 'everywhere'}"


class MaskedColumn(models.Model):
    """A column of a table that is shown as a fixed mark to whoever does not see masked columns."""

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="masked_columns")
    path = models.CharField(max_length=COLUMN_CHARS_MAX)
    """As somebody wrote it; fields of structs behind dots. Case makes no difference."""

    class Meta:
        ordering = ["path"]
        constraints = [models.UniqueConstraint("table", Lower("path"), name="masked_column_once")]

    def __str__(self) -> str:
        return f"{self.path} of {self.table}"
