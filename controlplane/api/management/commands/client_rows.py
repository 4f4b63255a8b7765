"""`manage.py client_rows`: write the generated parts of the Python client."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from controlplane.api import client_calls, client_rows


class Command(BaseCommand):
    help = "Generate the rows and requests of the Python client from the node's descriptions."

    def handle(self, *_arguments: Any, **_options: Any) -> None:
        # The methods first: rows are made for those that they import.
        for file, make in (
            (client_calls.FILE, client_calls.client_calls),
            (client_rows.FILE, client_rows.client_rows),
        ):
            file.write_text(make(), encoding="utf-8")
            self.stdout.write(f"wrote {file}")
