"""Upload: a file of rows that a user sent to this node. UploadUse: an operation that loads it."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import User
from django.db import models

NAME_CHARS_MAX = 255


class Upload(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    """Also the name of the stored file: nothing of the user's name is in a path."""
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="uploads")
    name = models.CharField(max_length=NAME_CHARS_MAX)
    """As the user's computer had it. Text only: no path is made of it."""
    suffix = models.CharField(max_length=16, blank=True, default="")
    """One of a fixed list, such as `.csv.gz`; empty for a name without one."""
    bytes = models.BigIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["owner", "-created_at"], name="upload_by_owner")]

    def __str__(self) -> str:
        return f"{self.name} ({self.pk})"


class UploadUse(models.Model):
    upload = models.ForeignKey(Upload, on_delete=models.CASCADE, related_name="uses")
    operation = models.UUIDField(db_index=True)
    """The id of an operation, of any state. Operations know this app, not the other way round."""
    used_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["upload", "operation"], name="one_use_each")]

    def __str__(self) -> str:
        return f"{self.upload} in {self.operation}"
