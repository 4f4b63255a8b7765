"""`make mutants`: changes the protocol's rules, and names the changes that no quick test notices.

    python -m tests.mutation [--limit 200] [--seed <number>] [--jobs 2] [--only <part of a name>]

Ends with 1 when a mutant survives that `survivors.toml` does not explain.
"""

from __future__ import annotations

import argparse
import difflib
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.mutation.mutants import REPOSITORY, Mutant, all_mutants
from tests.mutation.survivors import explained
from tests.mutation.trials import Verdict, try_all


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--limit", type=int, default=200, help="mutants; 0 for all")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="part of the mutants' names")
    arguments = parser.parse_args()
    mutants = [mutant for mutant in all_mutants() if arguments.only in mutant.name]
    drawn = _draw(mutants, arguments.limit, arguments.seed)
    _say(f"seed {arguments.seed}: {len(drawn)} of {len(mutants)} mutants")
    verdicts = Counter[Verdict]()
    known, unknown = explained(), list[Mutant]()
    with tempfile.TemporaryDirectory(prefix="sluice-mutants.") as folder:
        for mutant, verdict in try_all(drawn, folder=Path(folder), jobs=arguments.jobs):
            verdicts[verdict] += 1
            _say(f"{verdict} {mutant.name}")
            if verdict is not Verdict.SURVIVED:
                if mutant.name in known:
                    _say("    no survivor any more: take it off the list")
            elif mutant.name not in known:
                unknown.append(mutant)
                _say(f"{_change(mutant)}\n    NOBODY EXPLAINS IT")
    counts = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in Verdict)
    _say(f"seed {arguments.seed}: {counts}, of these {len(unknown)} that nobody explains")
    return int(bool(unknown))


def _draw(mutants: list[Mutant], limit: int, seed: int) -> list[Mutant]:
    if limit == 0 or limit >= len(mutants):
        return mutants
    return random.Random(seed).sample(mutants, limit)


def _change(mutant: Mutant) -> str:
    before = (REPOSITORY / mutant.module).read_text(encoding="utf-8").splitlines()
    lines = difflib.unified_diff(before, mutant.source().splitlines(), n=0, lineterm="")
    return "\n".join(f"    {line}" for line in list(lines)[2:])


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
