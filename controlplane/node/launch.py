"""Become one process of the node: `python -m controlplane.node.launch <name>`, as the supervisor
calls it.

The supervisor's settings hold nothing but this line, so neither a secret nor an environment is
written anywhere twice.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import NoReturn

from controlplane.node.environment import process_environment
from controlplane.node.identity import Identity, read_identity
from controlplane.node.places import Places, places_from
from controlplane.node.processes import Process, processes
from controlplane.node.secrets_file import NodeSecrets, read_secrets
from workers.installation import format_command


def main(name: str) -> None:
    places = places_from(os.environ)
    identity, secrets = read_node(places)
    wanted = {process.name: process for process in processes(os.environ, places, identity, secrets)}
    become(wanted[name], places, identity)


def read_node(places: Places) -> tuple[Identity, NodeSecrets]:
    """Who this node is; ends the process where nobody has written it."""
    identity, secrets = read_identity(places.identity), read_secrets(places.secrets)
    if identity is None or secrets is None:
        missing = places.identity if identity is None else places.secrets
        sys.exit(
            f"{missing} is missing or not whole: run `{format_command('up')}`, which writes it"
        )
    return identity, secrets


def become(process: Process, places: Places, identity: Identity) -> NoReturn:
    environ = process_environment(os.environ, places, identity, process.secrets)
    os.chdir(process.folder)
    if most := process.memory_bytes_max:
        resource.setrlimit(resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))
    os.execve(process.command[0], process.command, environ)  # noqa: S606  (a list of words, no shell)


if __name__ == "__main__":
    main(sys.argv[1])
