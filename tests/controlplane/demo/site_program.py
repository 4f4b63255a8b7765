"""Set a site up as a node does, look at its pages, tasks and commands, and print what is there, as
JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import django

django.setup()

from django.contrib.auth.models import Group, User  # noqa: E402
from django.core.management import call_command, get_commands, load_command_class  # noqa: E402
from django.test import Client  # noqa: E402

from controlplane.celery import app  # noqa: E402
from controlplane.errors import InvalidRequest  # noqa: E402
from controlplane.node.additions import additions  # noqa: E402
from controlplane.node.places import Places  # noqa: E402
from controlplane.operations.source_kinds import check_source_kind  # noqa: E402
from controlplane.tables.models import Table  # noqa: E402

call_command("migrate", interactive=False, verbosity=0)
app.loader.import_default_modules()
person = User.objects.create_user("ada")
person.groups.add(Group.objects.get_or_create(name="admin")[0])
client = Client()
client.force_login(person)
tables = client.get("/").content.decode()
Table.objects.create(
    slug="ads",
    name="ads",
    location="/nowhere/ads",
    record_key="request_id",
    partition_by="region",
)
try:
    check_source_kind({"kind": "none"})
    sources: object = "every one"
except InvalidRequest as refusal:
    sources = refusal.values["known"]
json.dump(
    {
        "tables": tables,
        "live": client.get("/t/ads/live").content.decode(),
        "part": client.get("/t/ads/live/demo").status_code,
        "pressed": [
            client.post(f"/t/ads/demo/{button}").status_code
            for button in ("conflict", "kill", "start")
        ],
        "processes": [
            process.name
            for addition in additions()
            for process in addition.processes(Places(Path("/nowhere")))
        ],
        "tasks": sorted(name for name in app.tasks if "demo" in name),
        "commands": list(get_commands()),
        "sources": sources,
        "up": load_command_class("controlplane.node", "up")
        .create_parser("manage.py", "up")
        .format_help(),
        "modules": [
            name
            for name in sys.modules
            if name.startswith(("controlplane.demo", "web.demo", "workers.demo"))
        ],
    },
    sys.stdout,
)
