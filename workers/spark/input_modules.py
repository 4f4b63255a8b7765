"""Modules with inputs beside files, for the drivers that are launched with their names.

A launcher names them in the driver's environment, so that a job, which is a message, never chooses
what is imported. Spark itself is not loaded here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

INPUTS_VARIABLE: Final = "SLUICE_INPUT_MODULES"
_added: list[str] = []


def add_input_module(name: str) -> None:
    """Drivers that this process launches from now on know the kinds in `name`'s `INPUTS`."""
    if name not in _added:
        _added.append(name)


def modules_named(environment: Mapping[str, str]) -> list[str]:
    """Those that a driver with this environment may load."""
    return [name for name in environment.get(INPUTS_VARIABLE, "").split(",") if name]


def names_for_driver(environment: Mapping[str, str]) -> str:
    """INPUTS_VARIABLE of a driver: what this environment names already, then what was added."""
    return ",".join(dict.fromkeys([*modules_named(environment), *_added]))
