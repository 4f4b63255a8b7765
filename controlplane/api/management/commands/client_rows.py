"""`manage.py client_rows`: write the rows of the Python client anew."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from controlplane.api.client_rows import FILE, client_rows


class Command(BaseCommand):
    help = "Write what the Python client declares of answers, from the OpenAPI document."

    def handle(self, *_arguments: Any, **_options: Any) -> None:
        FILE.write_text(client_rows(), encoding="utf-8")
        self.stdout.write(f"wrote {FILE}")
