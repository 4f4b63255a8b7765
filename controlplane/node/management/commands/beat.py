"""`manage.py beat`: the clock of a node's periodic tasks, in the foreground. Run exactly one."""

from __future__ import annotations

from typing import Any

from controlplane.node.identity import Identity
from controlplane.node.places import Places
from controlplane.node.processes import Process
from controlplane.node.role_command import RoleCommand


class Command(RoleCommand):
    help = "Run the scheduler of a node's periodic tasks in the foreground; run exactly one."
    role = "beat"
    needs_database = False

    def run(
        self,
        places: Places,
        identity: Identity,
        processes: dict[str, Process],
        options: dict[str, Any],
    ) -> None:
        self.become(processes[self.role], places, identity)
