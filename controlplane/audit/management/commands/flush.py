"""`manage.py flush`: Django's own, with the guards of the audit out of its way. It empties the
whole database on purpose, and the audit begins anew.
"""

from __future__ import annotations

from typing import Any

from django.core.management.commands import flush
from django.db import connections

from controlplane.audit.guards import install, remove


class Command(flush.Command):
    def handle(self, **options: Any) -> None:
        connection = connections[options["database"]]
        remove(connection)
        try:
            super().handle(**options)
        finally:
            install(connection)
