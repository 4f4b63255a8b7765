"""`manage.py client_rows`: write the generated parts of the Python client."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from controlplane.api import client_calls, client_rows


class Command(BaseCommand):
    help = "Write the rows and the requests of the Python client, from the node's own descriptions."

    def handle(self, *_arguments: Any, **_options: Any) -> None:
        files = {
            client_rows.FILE: client_rows.client_rows(),
            client_calls.FILE: client_calls.client_calls(),
        }
        for file, text in files.items():
            file.write_text(text, encoding="utf-8")
            self.stdout.write(f"wrote {file}")
