from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("operations", "0007_approvals"),
    ]

    operations = [
        migrations.AddField(
            model_name="operation",
            name="attempt_log",
            field=models.JSONField(default=list),
        ),
    ]
