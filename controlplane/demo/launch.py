"""Become one process of the demo: `python -m controlplane.demo.launch <name>`, as the supervisor
calls it.
"""

from __future__ import annotations

import os
import sys

from controlplane.demo.processes import processes
from controlplane.node.launch import become, read_node
from controlplane.node.places import places_from


def main(name: str) -> None:
    places = places_from(os.environ)
    identity, _ = read_node(places)
    wanted = {process.name: process for process in processes(places)}
    become(wanted[name], places, identity)


if __name__ == "__main__":
    main(sys.argv[1])
