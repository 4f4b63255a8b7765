from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tables", "0005_index_type"),
    ]

    operations = [
        migrations.AddField(
            model_name="table",
            name="properties",
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name="table",
            name="property_changes",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="table",
            name="overtaken",
            field=models.JSONField(default=list),
        ),
    ]
