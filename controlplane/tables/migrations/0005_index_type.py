from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tables", "0004_foreign_tables"),
    ]

    operations = [
        migrations.AddField(
            model_name="table",
            name="index_type",
            field=models.CharField(blank=True, max_length=16),
        ),
    ]
