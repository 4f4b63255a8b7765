"""`python -m tests.sink_simulator <seed> [<bug>]`: what happened in one run, line by line."""

from __future__ import annotations

import sys

from tests.sink_simulator.bugs import BUGS
from tests.sink_simulator.rules import Rules
from tests.sink_simulator.simulation import Simulation
from tests.sink_simulator.world import Violation

if __name__ == "__main__":
    seed, names = int(sys.argv[1]), sys.argv[2:]
    simulation = Simulation(seed, BUGS[names[0]] if names else Rules())
    simulation.story = []
    try:
        simulation.run()
        verdict = "nothing is wrong"
    except (Violation, AssertionError) as wrong:
        verdict = repr(wrong)
    for line in (*simulation.story, verdict):
        sys.stdout.write(line + "\n")
