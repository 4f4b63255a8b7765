"""The Spark settings that a user may choose: an allow-list of exact keys, each with a typed rule.

Setting a Spark conf equals running code (an extension class, a Java option, a Python executable),
and Spark knows aliases, prefixes and deprecated spellings of its keys. So nothing is normalised
here: what is not a listed key, letter by letter, with a value that fits, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workers.errors import InvalidInput

_INTEGER = re.compile(r"(0|[1-9][0-9]{0,17})\Z")
_POOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")


@dataclass(frozen=True, slots=True)
class Setting:
    """The rule for the values of one Spark setting."""

    accepts: Callable[[str], bool]
    wanted: str
    """What a value must be, for a person."""


def _integer(least: int, most: int) -> Setting:
    return Setting(
        accepts=lambda text: bool(_INTEGER.match(text)) and least <= int(text) <= most,
        wanted=f"a whole number from {least} to {most}",
    )


def _one_of(*choices: str) -> Setting:
    return Setting(accepts=lambda text: text in choices, wanted=" or ".join(choices))


_BOOLEAN = _one_of("true", "false")

ALLOWED: Mapping[str, Setting] = {
    "spark.scheduler.pool": Setting(
        accepts=lambda text: bool(_POOL_NAME.match(text)), wanted="a plain pool name"
    ),
    "spark.sql.adaptive.enabled": _BOOLEAN,
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": _integer(1 << 20, 1 << 31),
    "spark.sql.adaptive.coalescePartitions.enabled": _BOOLEAN,
    "spark.sql.adaptive.skewJoin.enabled": _BOOLEAN,
    "spark.sql.autoBroadcastJoinThreshold": _integer(0, 1 << 30),
    "spark.sql.execution.arrow.maxRecordsPerBatch": _integer(1, 10_000_000),
    "spark.sql.files.maxPartitionBytes": _integer(1 << 20, 1 << 31),
    "spark.sql.files.openCostInBytes": _integer(0, 1 << 28),
    "spark.sql.session.timeZone": _one_of("UTC"),
    "spark.sql.shuffle.partitions": _integer(1, 10_000),
}


def checked_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings themselves, when every one is allowed.

    Raises InvalidInput.
    """
    for key, value in settings.items():
        rule = ALLOWED.get(key) if type(key) is str else None
        if rule is None:
            raise InvalidInput("spark setting is not on the allow-list", key=repr(key)[:120])
        if type(value) is not str or not value.isascii() or not rule.accepts(value):
            raise InvalidInput("spark setting has a wrong value", key=key, wanted=rule.wanted)
    return dict(settings)
