"""`manage.py flush`: Django's own command, which also has to empty the audit tables. It removes the
triggers that guard them first, and creates them again afterwards.
"""

from __future__ import annotations

from typing import Any

from django.core.management.commands import flush
from django.db import connections

from controlplane.audit.guards import install, remove


class Command(flush.Command):
    help = "Delete all rows of the database, the audit log included."

    def handle(self, **options: Any) -> None:
        connection = connections[options["database"]]
        remove(connection)
        try:
            super().handle(**options)
        finally:
            install(connection)
