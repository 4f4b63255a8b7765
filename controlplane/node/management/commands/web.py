"""`manage.py web`: the pages, the API and the live streams of a node, in the foreground."""

from __future__ import annotations

from typing import Any

from controlplane.node.identity import Identity
from controlplane.node.places import Places
from controlplane.node.processes import Process
from controlplane.node.role_command import RoleCommand
from controlplane.node.roles import prepare_static_files


class Command(RoleCommand):
    help = "Run the web process of a node in the foreground."
    role = "web"

    def run(
        self,
        places: Places,
        identity: Identity,
        processes: dict[str, Process],
        options: dict[str, Any],
    ) -> None:
        prepare_static_files(places, self.say)
        self.become(processes[self.role], places, identity)
