from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tables", "0006_properties"),
    ]

    operations = [
        migrations.AddField(
            model_name="table",
            name="time_units",
            field=models.CharField(blank=True, max_length=2000),
        ),
    ]
