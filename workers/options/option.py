"""An option: its key, type, default, setter and meaning. Sets of options reject unknown keys.

A misspelt option that is silently ignored loses data hours later. So each key is in exactly one
set, which fills in defaults, checks values by the declared type, and answers an unknown key with
the nearest known one. `docs/options.md` is printed from the sets.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeVar

from workers.errors import InvalidInput
from workers.options.option_values import boolean, choice, integer

Choice = TypeVar("Choice", bound=StrEnum)


class Setter(StrEnum):
    """The party that may set an option, and where it is kept."""

    TABLE = "the creator or adopter of the table; kept in its properties"
    WRITE = "each write"
    PROGRAM = "each write of a program of its own; a node takes it from its settings"
    SINK = "the user who starts the sink"
    READ = "each read through Spark"
    SERVICE = "each run of the table service, or its schedule"
    INLINE = "each write, for what runs after its commit"


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number of a range, both ends included."""

    least: int
    most: int

    def __str__(self) -> str:
        return f"whole number, {self.least:,} to {self.most:,}"


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a range that may have a fraction."""

    least: float
    most: float

    def __str__(self) -> str:
        return f"number, {self.least:g} to {self.most:g}"


@dataclass(frozen=True, slots=True)
class Boolean:
    """`true` or `false`."""

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value of an enumeration, ignoring case."""

    kind: type[StrEnum]

    def __str__(self) -> str:
        return ", ".join(f"`{member.value}`" for member in self.kind)


@dataclass(frozen=True, slots=True)
class Text:
    """Text with a grammar of its own, which the reader of the option checks."""

    shape: str = "text"

    def __str__(self) -> str:
        return self.shape


Kind = Integer | Number | Boolean | OneOf | Text


@dataclass(frozen=True, slots=True)
class Option:
    """One key with its type, default and meaning; a row of the page `docs/options.md`."""

    key: str
    kind: Kind
    default: str
    """Empty if an absent value is derived from other settings; `meaning` describes how."""
    meaning: str
    """One sentence or two for people, with units."""
    setter: Setter | None = None
    """None for the set's own."""
    since: str = "0.1"
    """The version of Sluice that took it first."""


class OptionSet:
    """The options of one place; keys in the order of the documentation."""

    every: ClassVar[list[OptionSet]] = []
    """The sets of all modules that are loaded; `workers.options.catalogue` loads them all."""

    def __init__(self, name: str, setter: Setter, options: Sequence[Option]) -> None:
        """Create the set; `name` is its options' name in errors, such as `write option`."""
        self.name = name
        self.setter = setter
        self._options = {option.key: option for option in options}
        assert len(self._options) == len(options), f"a key occurs twice among {name}s"
        OptionSet.every.append(self)

    @property
    def defaults(self) -> dict[str, str]:
        """The defaults by key, in the order of the documentation; a new dictionary at each call."""
        return {key: option.default for key, option in self._options.items()}

    def __contains__(self, key: object) -> bool:
        return key in self._options

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __getitem__(self, key: str) -> Option:
        return self._options[key]

    def get_setter(self, key: str) -> Setter:
        """Return the party that may set this key. Raises KeyError for a key of another set."""
        return self._options[key].setter or self.setter

    def fill_defaults(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return `options` with defaults for absent keys; values are not checked yet.

        Raises InvalidInput for an unknown key, and for a value that is not text.
        """
        for key, value in options.items():
            if key not in self._options:
                raise InvalidInput(f"unknown {self.name}", key=key, **self._hint(key))
            if not isinstance(value, str):
                raise InvalidInput(f"a {self.name} is text", key=key, value=value)
        return {**self.defaults, **options}

    def integer(self, values: Mapping[str, str], key: str) -> int:
        """Return the value of a whole number. Raises InvalidInput naming the key and the range."""
        kind = self._options[key].kind
        assert isinstance(kind, Integer), key
        return integer(values, key, least=kind.least, most=kind.most)

    def number(self, values: Mapping[str, str], key: str) -> float:
        """Return the value of a number. Raises InvalidInput naming the key and the range."""
        kind = self._options[key].kind
        assert isinstance(kind, Number), key
        try:
            number = float(values[key])
        except ValueError as error:
            raise InvalidInput("not a number", key=key, value=values[key]) from error
        if not kind.least <= number <= kind.most:
            raise InvalidInput(
                "number out of range",
                key=key,
                value=values[key],
                least=kind.least,
                most=kind.most,
            )
        return number

    def boolean(self, values: Mapping[str, str], key: str) -> bool:
        """Return the value of `true` or `false`. Raises InvalidInput naming the key."""
        assert isinstance(self._options[key].kind, Boolean), key
        return boolean(values, key)

    def choice(self, values: Mapping[str, str], key: str, kind: type[Choice]) -> Choice:
        """Return the value as one of `kind`. Raises InvalidInput naming the key and what is
        allowed.
        """
        declared = self._options[key].kind
        assert isinstance(declared, OneOf), key
        assert declared.kind is kind, key
        return choice(values, key, kind)

    def _hint(self, key: str) -> dict[str, object]:
        for other in OptionSet.every:
            if key in other:
                return {"is": f"a {other.name}", "set_by": other.get_setter(key).value}
        if near := difflib.get_close_matches(key, self._options, n=1):
            return {"did_you_mean": near[0]}
        everywhere = {other_key: other for other in OptionSet.every for other_key in other}
        if near := difflib.get_close_matches(key, everywhere, n=1):
            return {"did_you_mean": near[0], "which_is": f"a {everywhere[near[0]].name}"}
        return {"known": sorted(self._options)}
