"""The port between the runner and what it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.jobs import JsonScalar
from workers.table.table import Table


@dataclass(frozen=True, slots=True)
class Round:
    """A frame to write, and its number from 0 on."""

    number: int
    frame: DataFrame


class Source(Protocol):
    """Rounds are numbered from 0; each is a function of its number alone, so it can be repeated."""

    @property
    def run(self) -> int:
        """Which run of the source this is: positions of other runs do not count."""

    @property
    def rounds(self) -> int:
        """How many there are in all; the driver ends after the last one."""
        ...

    @property
    def pace_s(self) -> float:
        """From the start of one round to the start of the next."""

    @property
    def is_repeatable(self) -> bool:
        """A round that was rolled back by others is simply written again."""

    @property
    def settled(self) -> Mapping[str, str]:
        """What it has settled on since it was opened, under the names of its parameters: a writer
        in the place of this one is given it.
        """

    def frame(self, spark: SparkSession, number: int) -> DataFrame:
        """The rows of round `number`, to be written as one commit; the same ones each time."""
        ...

    def before_commit(self, instant: InstantTime) -> None:
        """All files of the round are written; the commit follows when this returns."""


class WrittenOnce:
    """What sources of a single round share: nothing to repeat, nothing to wait for."""

    __slots__ = ()

    @property
    def run(self) -> int:
        """Always 0: there is no second run to tell from the first."""
        return 0

    @property
    def rounds(self) -> int:
        """Always 1."""
        return 1

    @property
    def pace_s(self) -> float:
        """Always 0: no next round waits."""
        return 0.0

    @property
    def settled(self) -> Mapping[str, str]:
        """Nothing: whoever opens it again finds the same."""
        return {}

    @property
    def is_repeatable(self) -> bool:
        """Never: a round that was rolled back ends the write."""
        return False

    def before_commit(self, instant: InstantTime) -> None:
        """Return at once: a single round waits for no other writer."""
        return


@dataclass(frozen=True, slots=True)
class JobSource:
    """A job's `source`, read key by key; what nobody read is refused at the end."""

    values: Mapping[str, JsonScalar]

    def only(self, *names: str) -> None:
        """Check that there are no other keys. Raises InvalidInput for one."""
        if unknown := sorted(set(self.values) - {"kind", *names}):
            raise InvalidInput("source has unknown keys", keys=unknown, known=sorted(names))

    def integer(self, name: str, default: int, *, least: int, most: int) -> int:
        """The whole number at `name`, `default` where absent. Raises InvalidInput outside `least`
        to `most`.
        """
        value = self.values.get(name, default)
        if type(value) is not int or not least <= value <= most:
            raise InvalidInput("source wants a whole number", key=name, least=least, most=most)
        return value

    def number(self, name: str, default: float, *, most: float) -> float:
        """The number at `name`, `default` where absent. Raises InvalidInput unless it is from 0 to
        `most`.
        """
        value = self.values.get(name, default)
        if type(value) not in (int, float) or not 0 <= float(value or 0) <= most:
            raise InvalidInput("source wants a number", key=name, most=most)
        return float(value or 0)

    def text(self, name: str, default: str | None = None) -> str:
        """The text at `name`. Raises InvalidInput where it is none, or absent without a default."""
        value = self.values.get(name, default)
        if not isinstance(value, str):
            raise InvalidInput("source wants a text", key=name)
        return value


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a source may look at besides its own parameters."""

    table: Table
    writer: str
    environment: Mapping[str, str]
    scratch: Path
    """Of this driver, where it may put what it has to fetch first."""
