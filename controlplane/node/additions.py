"""What apps add to a node: processes, how these are seen to be ready, checks, and what `up` starts
at its end. An app says so when it is ready; a node without it has nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.node.doctor import Finding
    from controlplane.node.places import Places
    from controlplane.node.processes import Process
    from controlplane.node.readiness import Probe
    from controlplane.node.supervision import Supervisor


@dataclass(frozen=True, slots=True)
class Addition:
    """What one app brings to the node."""

    name: str
    """With `up --no-<name>` the node starts without it."""
    help_without: str
    """What that option does, for `up --help`."""
    processes: Callable[[Places], Sequence[Process]]
    """The supervisor keeps them behind all others."""
    probes: Callable[[Places, Supervisor], Mapping[str, Probe]]
    """Of those that should run now; `up` waits for none of them."""
    checks: Callable[[Places], Sequence[Finding]]
    """`doctor` tells of them, and `up` starts nothing while one fails."""
    start: Callable[[Callable[[str], object]], str]
    """Called by `up` once the node is up. It may print one line where a step takes minutes, and
    returns a sentence on what it started.
    """


_modules: list[str] = []


def add_to_node(module: str) -> None:
    """The module has an `ADDITION`. It is loaded by commands that ask for it, not with each."""
    if module not in _modules:
        _modules.append(module)


def additions() -> list[Addition]:
    return [import_module(module).ADDITION for module in _modules]
