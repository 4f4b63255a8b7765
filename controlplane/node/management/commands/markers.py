"""`manage.py markers`: the marker server of a node, in the foreground."""

from __future__ import annotations

from typing import Any

from controlplane.node.identity import Identity
from controlplane.node.places import Places
from controlplane.node.processes import Process
from controlplane.node.role_command import RoleCommand


class Command(RoleCommand):
    help = "Run the marker server of a node in the foreground."
    role = "markers"
    needs_database = False

    def run(
        self,
        places: Places,
        identity: Identity,
        processes: dict[str, Process],
        options: dict[str, Any],
    ) -> None:
        self.become(processes[self.role], places, identity)
