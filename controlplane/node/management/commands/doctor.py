"""`manage.py doctor`: is this machine fit to run a node? One line per check; ends with 1 when one
fails.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management import BaseCommand

from controlplane.node.doctor import Surroundings, examine, free_bytes
from controlplane.node.identity import BadSetting, Identity, build_identity, read_identity
from controlplane.node.living import supervisor_pid
from controlplane.node.places import places_from


class Command(BaseCommand):
    help = "Check Java, ports, disk, versions and addresses, one line each."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        places = places_from(os.environ)
        is_running = supervisor_pid(places) is not None
        identity = read_identity(places.identity)
        if identity is not None and not is_running:
            # The next `up` uses what the environment names now.
            identity = _renew(identity)
        findings = examine(
            Surroundings(
                environ=os.environ,
                places=places,
                identity=identity,
                is_running=is_running,
                free_bytes=free_bytes,
            )
        )
        for finding in findings:
            self.stdout.write(
                f"{'ok  ' if finding.is_fine else 'FAIL'}  {finding.name:<12} {finding.line}"
            )
        if not all(finding.is_fine for finding in findings):
            sys.exit(1)


def _renew(identity: Identity) -> Identity:
    """Return the identity with the settings of the environment, or as it is where one of them is
    invalid, which a check reports.
    """
    try:
        return build_identity(os.environ, node=identity.node, sockets=identity.sockets)
    except BadSetting:
        return identity
