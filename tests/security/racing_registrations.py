"""Many at once want one slug and places that overlap: a program of its own, because each takes part
with a connection of its own, on the database that `SLUICE_TEST_DATABASE` names.

Prints as JSON how many rounds there were, who won how often, and everything that was wrong.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import PurePosixPath
from threading import Barrier

os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.settings.test"

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.core.management import call_command  # noqa: E402

from controlplane.errors import ControlPlaneError  # noqa: E402
from controlplane.operations.ask import Requester  # noqa: E402
from controlplane.operations.requesting import Given  # noqa: E402
from controlplane.operations.table_changes.actions import TableChange, do_change_table  # noqa: E402
from controlplane.tables.actions import do_register_table  # noqa: E402
from controlplane.tables.models import FormerSlug, Table  # noqa: E402

SHELL = Requester(None, "a test", is_shell=True)
CONTENDERS = 5


def contenders(root: str, other: Table) -> list[tuple[str, Callable[[], Table]]]:
    """What each does in one round; the first four cannot all be."""

    def register(place: str, slug: str) -> Callable[[], Table]:
        return lambda: do_register_table(location=f"{root}/{place}", slug=slug, by=None)

    return [
        ("outer", register("t1", "wanted")),
        ("inner", register("t1/inner", "within")),
        ("same", register("t1", "wanted")),
        (
            "renamed",
            lambda: do_change_table(
                other, TableChange(slug="wanted"), by=SHELL, given=Given(reason="a race")
            ),
        ),
        ("apart", register("t10", "apart")),
    ]


def race(root: str, rounds: int) -> dict[str, object]:
    winners: Counter[str] = Counter()
    wrong: list[str] = []
    barrier = Barrier(CONTENDERS)

    def contend(name: str, act: Callable[[], Table]) -> str:
        barrier.wait()
        try:
            act()
        except ControlPlaneError:
            return ""
        return name

    with ThreadPoolExecutor(CONTENDERS) as pool:
        for number in range(rounds):
            Table.objects.all().delete()
            other = do_register_table(location=f"{root}/other", slug="other", by=None)
            begun = [pool.submit(contend, *each) for each in contenders(root, other)]
            for ended in begun:
                if (error := ended.exception()) is not None:
                    wrong.append(f"round {number}: {error!r}")
                elif ended.result():
                    winners[ended.result()] += 1
            wrong += [f"round {number}: {words}" for words in violations()]
    return {"rounds": rounds, "winners": winners, "wrong": wrong[:20]}


def violations() -> list[str]:
    """Told from path parts, not by the rule that is tried."""
    tables = list(Table.objects.values_list("slug", "location"))
    slugs = [slug for slug, _ in tables]
    said = [f"two tables {slugs}"] if len(set(slugs)) < len(slugs) else []
    for (first, outer), (second, inner) in combinations(tables, 2):
        parts, others = PurePosixPath(outer).parts, PurePosixPath(inner).parts
        shared = min(len(parts), len(others))
        if parts[:shared] == others[:shared]:
            said.append(f"{first} overlaps {second}")
    if taken := set(FormerSlug.objects.values_list("slug", flat=True)) & set(slugs):
        said.append(f"former slugs that are taken: {sorted(taken)}")
    return said


if __name__ == "__main__":
    settings.SLUICE_TABLE_ROOTS = (sys.argv[1],)
    call_command("migrate", verbosity=0)
    sys.stdout.write(json.dumps(race(sys.argv[1], int(sys.argv[2]))))
