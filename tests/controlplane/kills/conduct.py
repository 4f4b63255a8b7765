"""Asks for so many operations, kills a worker every so many seconds, and holds what storage shows
against its own account: `python -m tests.controlplane.kills.conduct`, its orders a line of JSON.

What it needs of the environment is `processes.environment_of`. It ends with 0 and a line of
figures, or with a traceback and what is known of the operation at fault.
"""

from __future__ import annotations

import json
import os
import random
import sys
from dataclasses import dataclass
from pathlib import Path

import django


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    folder: str
    operations: int
    seed: int
    kill_every_s: float
    bootstrap: str
    """Of the broker."""


def main(orders: Orders) -> None:
    folder = Path(orders.folder)
    for name in ("home/run", "home/counts", "tables"):
        (folder / name).mkdir(parents=True)
    django.setup()
    from django.contrib.auth.models import Group, User
    from django.core.management import call_command

    from tests.controlplane.kills.asking import Asking, made_tables
    from tests.controlplane.kills.letters import Letters
    from tests.controlplane.kills.processes import Beat, Engines, control_plane
    from tests.controlplane.kills.run import TABLES, Run

    call_command("migrate", verbosity=0)
    admin = User.objects.create_user("ada")
    admin.groups.add(Group.objects.get(name="admin"))
    accounts = made_tables(folder / "tables", TABLES, admin)
    chance = random.Random(orders.seed)
    with control_plane(folder, os.environ) as pids:
        engines = Engines(folder)
        try:
            letters = Letters(folder / "tables", orders.bootstrap, admin)
            asking = Asking(accounts, letters, admin, chance)
            run = Run(
                asking, engines, Beat(), pids, orders.operations, orders.kill_every_s, orders.seed
            )
            run.work()
            run.check()
        finally:
            engines.stop()


if __name__ == "__main__":
    main(Orders(**json.loads(sys.stdin.read())))
