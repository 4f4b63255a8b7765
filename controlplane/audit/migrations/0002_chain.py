"""Audit rows in a chain of hashes. Those from before are taken into it as they are now, in the order
of their ids, and a row behind them says how many they were.
"""

from __future__ import annotations

import django.utils.timezone
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from controlplane.audit.canonical import GENESIS_HASH, digest_of, link_hash
from controlplane.audit.guards import install, remove

_CONTENT = ("who", "what", "reason", "plan_hash", "result", "request_id", "details", "at")


def chain_former_rows(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    event_model = apps.get_model("audit", "AuditEvent")
    former = event_model.objects.order_by("pk")
    if count := former.count():
        event_model.objects.create(
            who="migration",
            what="audit.chain",
            object="audit",
            result="done",
            details={"rows_from_before": count},
        )
    sequence, newest_hash = 0, GENESIS_HASH
    for event in former.iterator(chunk_size=1000):
        content = {name: getattr(event, name) for name in _CONTENT}
        event.digest = digest_of(subject=event.object, **content)
        event.sequence, event.previous_hash = sequence + 1, newest_hash
        event.hash = link_hash(
            sequence=event.sequence, previous_hash=newest_hash, row_id=event.pk, digest=event.digest
        )
        event.save(update_fields=["digest", "sequence", "previous_hash", "hash"])
        sequence, newest_hash = event.sequence, event.hash
    apps.get_model("audit", "AuditHead").objects.create(pk=1, sequence=sequence, hash=newest_hash)


def install_guards(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    install(editor.connection)


def remove_guards(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    remove(editor.connection)


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_schema")]

    operations = [
        migrations.CreateModel(
            name="AuditCheck",
            fields=[
                (
                    "id",
                    models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False),
                ),
                ("checked_at", models.DateTimeField(null=True)),
                ("sequence", models.BigIntegerField(default=0)),
                ("hash", models.CharField(default=GENESIS_HASH, max_length=64)),
                ("whole_sequence", models.BigIntegerField(default=0)),
                ("whole_hash", models.CharField(default=GENESIS_HASH, max_length=64)),
                ("whole_at", models.DateTimeField(null=True)),
                ("problem_kind", models.CharField(blank=True, max_length=16)),
                ("problem_sequence", models.BigIntegerField(null=True)),
                ("problem", models.TextField(blank=True)),
            ],
        ),
        migrations.CreateModel(
            name="AuditHead",
            fields=[
                (
                    "id",
                    models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False),
                ),
                ("sequence", models.BigIntegerField(default=0)),
                ("hash", models.CharField(default=GENESIS_HASH, max_length=64)),
            ],
        ),
        migrations.AddField("auditevent", "version", models.PositiveSmallIntegerField(default=1)),
        migrations.AddField(
            "auditevent",
            "digest",
            models.CharField(default="", max_length=64),
            preserve_default=False,
        ),
        migrations.AddField(
            "auditevent", "sequence", models.BigIntegerField(null=True, unique=True)
        ),
        migrations.AddField(
            "auditevent",
            "previous_hash",
            models.CharField(blank=True, max_length=64, default=""),
            preserve_default=False,
        ),
        migrations.AddField(
            "auditevent",
            "hash",
            models.CharField(blank=True, max_length=64, default=""),
            preserve_default=False,
        ),
        migrations.AlterField(
            "auditevent",
            "at",
            models.DateTimeField(db_index=True, default=django.utils.timezone.now),
        ),
        *(
            migrations.AddIndex(
                "auditevent", models.Index(fields=[column, "at", "id"], name=f"audit_by_{column}")
            )
            for column in ("who", "what", "object", "result")
        ),
        migrations.AddIndex(
            "auditevent", models.Index(fields=["request_id"], name="audit_by_request")
        ),
        migrations.AddIndex(
            "auditevent",
            models.Index(
                condition=models.Q(("sequence__isnull", True)), fields=["id"], name="audit_waiting"
            ),
        ),
        migrations.RunPython(chain_former_rows, migrations.RunPython.noop),
        migrations.RunPython(install_guards, remove_guards),
    ]
