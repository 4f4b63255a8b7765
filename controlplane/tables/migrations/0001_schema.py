"""Registered tables."""

from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("tables", "0001_initial"),
        ("tables", "0002_lock_provider"),
        ("tables", "0003_column_groups"),
        ("tables", "0004_foreign_tables"),
        ("tables", "0005_index_type"),
        ("tables", "0006_properties"),
        ("tables", "0007_time_units"),
    ]

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Table",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("slug", models.SlugField(max_length=64, unique=True)),
                ("name", models.CharField(max_length=200)),
                ("location", models.CharField(max_length=700, unique=True)),
                ("table_type", models.CharField(blank=True, max_length=16)),
                ("table_version", models.PositiveSmallIntegerField(default=0)),
                ("record_key", models.CharField(blank=True, max_length=500)),
                ("partition_by", models.CharField(blank=True, max_length=500)),
                ("ordering", models.CharField(blank=True, max_length=500)),
                ("bucket_count", models.PositiveIntegerField(null=True)),
                ("index_type", models.CharField(blank=True, max_length=16)),
                ("lock_provider", models.CharField(blank=True, max_length=16)),
                ("is_foreign", models.BooleanField(default=False)),
                ("write_refusal", models.CharField(blank=True, max_length=500)),
                ("groups", models.JSONField(default=list)),
                ("join_needs", models.JSONField(default=list)),
                ("properties", models.JSONField(default=dict)),
                ("property_changes", models.JSONField(default=list)),
                ("overtaken", models.JSONField(default=list)),
                ("time_units", models.CharField(blank=True, max_length=2000)),
                ("registered_at", models.DateTimeField(auto_now_add=True)),
                ("synced_at", models.DateTimeField(null=True)),
                ("sync_error", models.CharField(blank=True, max_length=500)),
                (
                    "registered_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["slug"],
            },
        ),
    ]
