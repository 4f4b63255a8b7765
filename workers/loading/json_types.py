"""Types of JSON values by their place, from all lines of a file, and the values of these types."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from workers.loading.inference import Guess
from workers.loading.options import LoadOptions
from workers.loading.values import TIME, Unfit, convert_text

Convert = Callable[[Any, str], Any]
Count = Callable[[str, str], None]
_KINDS: Final = {bool: "a truth value", int: "a number", Decimal: "a number", str: "a text"}


class Misfit(Exception):
    """A JSON value at a place that does not take it."""

    def __init__(self, place: str, reason: str, advice: str = "", value: object = "") -> None:
        super().__init__(reason)
        self.place = place
        self.reason = reason
        self.advice = advice
        self.value = str(value)


class JsonGuess:
    """What the values at one place, line after line, may be stored as."""

    def __init__(self, place: str, options: LoadOptions) -> None:
        self._place = place
        self._options = options
        self._kind = ""
        self._guess = Guess(options)
        self.members: dict[str, JsonGuess] = {}
        """Of objects; the elements of lists under the empty name."""

    @property
    def has_value(self) -> bool:
        """Something that is not null was seen, if only an empty list or object."""
        return bool(self._kind)

    def look(self, value: Any) -> None:
        """Take one value into account. Raises Misfit for one of another kind than those before."""
        if value is None:
            return
        kind = "list" if type(value) is list else _KINDS.get(type(value), "an object")
        if self._kind and self._kind != kind:
            raise Misfit(
                self._place,
                f"the value is {kind} and earlier ones are {self._kind}",
                "give its type by column_types, such as string",
                value,
            )
        self._kind = kind
        if kind == "an object":
            for name, member in value.items():
                if name not in self.members:
                    self.members[name] = JsonGuess(f"{self._place}.{name}", self._options)
                self.members[name].look(member)
        elif kind == "list":
            element = self.members.setdefault("", JsonGuess(self._place, self._options))
            for entry in value:
                element.look(entry)
        elif kind == "a number":
            if type(value) is not int or not self._guess.look_at_whole(value):
                self._guess.look_at([str(value)])
        elif kind == "a text" and not self._guess.is_text:
            self._look_at_text(value)

    def _look_at_text(self, value: str) -> None:
        # Only times and dates are anything else than text in JSON.
        if TIME.fullmatch(value) is None:
            self._guess.be_text()
            return
        self._guess.look_at([value])

    def type(self, existing: pa.DataType | None = None) -> pa.DataType | None:
        """Return the type, with what a table's type at this place lacks added to it; None where no
        value was seen and the table has no type.
        """
        if existing is not None and pa.types.is_struct(existing) and self._kind == "an object":
            have = {
                existing.field(at).name: existing.field(at) for at in range(existing.num_fields)
            }
            old = [
                member.with_type(self.members[name].type(member.type) or member.type)
                if name in self.members
                else member
                for name, member in have.items()
            ]
            return pa.struct([*old, *self._fields(but=set(have))])
        if existing is not None and pa.types.is_list(existing) and self._kind == "list":
            element = self.members[""].type(existing.value_type) or existing.value_type
            return pa.list_(existing.value_field.with_type(element))
        if existing is not None:
            return existing
        match self._kind:
            case "":
                return None
            case "an object":
                fields = self._fields(but=set())
                return pa.struct(fields) if fields else None
            case "list":
                element = self.members[""].type()
                return None if element is None else pa.list_(pa.field("element", element))
            case "a truth value":
                return pa.bool_()
            case _:
                return self._guess.type

    def _fields(self, but: set[str]) -> list[pa.Field[Any]]:
        result = []
        for name, member in self.members.items():
            if name not in but and (kind := member.type()) is not None:
                result.append(pa.field(name, kind))
        return result

    def empty_places(self, existing: pa.DataType | None = None) -> list[str]:
        """Return the places below and including this one that have no value and no type."""
        if self.type(existing) is None:
            return [self._place]
        if existing is not None and not pa.types.is_struct(existing):
            return []
        places = []
        for name, member in self.members.items():
            has = existing is not None and name and existing.get_field_index(name) >= 0
            inner = existing.field(name).type if existing is not None and has else None
            places += member.empty_places(inner)
        return places


def converter(kind: pa.DataType, options: LoadOptions, count: Count) -> Convert:
    """Return what makes a JSON value, and the name of its place, the value of a type for Arrow. It
    raises Misfit.
    """
    types = pa.types
    if types.is_struct(kind):
        return _of_objects(kind, options, count)
    if types.is_map(kind):
        return _of_maps(kind, options, count)
    if types.is_list(kind) or types.is_large_list(kind):
        return _of_lists(kind, options, count)
    if types.is_boolean(kind):
        return _of_bools
    if types.is_string(kind) or types.is_large_string(kind):
        return _of_texts(count)
    return _of_scalars(kind, options, count)


def _of_objects(kind: Any, options: LoadOptions, count: Count) -> Convert:
    members = {
        kind.field(at).name: converter(kind.field(at).type, options, count)
        for at in range(kind.num_fields)
    }

    def convert(value: Any, place: str) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            raise Misfit(place, "the value is not an object", value=value)
        result = {}
        for name, member in value.items():
            if name in members:
                result[name] = members[name](member, f"{place}.{name}")
            elif not _is_hollow(member):
                raise Misfit(f"{place}.{name}", "the table's column has no such field")
        return result

    return convert


def _is_hollow(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_hollow, value.values()))
    return value is None or (isinstance(value, list) and all(map(_is_hollow, value)))


def _of_maps(kind: Any, options: LoadOptions, count: Count) -> Convert:
    item = converter(kind.item_type, options, count)

    def convert(value: Any, place: str) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            raise Misfit(place, "the value is not an object", value=value)
        return [(name, item(entry, f"{place}.{name}")) for name, entry in value.items()]

    return convert


def _of_lists(kind: Any, options: LoadOptions, count: Count) -> Convert:
    element = converter(kind.value_type, options, count)

    def convert(value: Any, place: str) -> Any:
        if value is None:
            return None
        if type(value) is not list:
            raise Misfit(place, "the value is not a list", value=value)
        return [element(entry, place) for entry in value]

    return convert


def _of_bools(value: Any, place: str) -> Any:
    if value is None or type(value) is bool:
        return value
    raise Misfit(place, "the value is neither true nor false", "write true or false", value)


def _of_texts(count: Count) -> Convert:
    def convert(value: Any, place: str) -> Any:
        if value is None or type(value) is str:
            return value
        if type(value) is bool:
            count(place, "a truth value as text")
            return "true" if value else "false"
        if type(value) in (int, Decimal):
            count(place, "a number as text")
            return str(value)
        raise Misfit(place, "the value is an object or a list and the column is text")

    return convert


def _of_scalars(kind: Any, options: LoadOptions, count: Count) -> Convert:
    limit = 1 << (kind.bit_width - 1) if pa.types.is_integer(kind) else 0
    is_time = pa.types.is_timestamp(kind) or pa.types.is_date(kind)

    def convert(value: Any, place: str) -> Any:
        if value is None or (type(value) is int and -limit <= value < limit):
            return value
        is_number = type(value) in (int, Decimal)
        if is_time if is_number else type(value) is not str:
            raise Misfit(
                place,
                f"the value is {_KINDS.get(type(value), 'nested')} and the column is {kind}",
                "write times as 2026-01-31T14:00:00Z" if is_time else "",
                value,
            )
        try:
            result, what = convert_text(str(value) if is_number else value, kind, options)
        except Unfit as unfit:
            raise Misfit(place, unfit.reason, unfit.advice, value) from unfit
        if what:
            count(place, what)
        elif not is_number and not is_time:
            is_binary = pa.types.is_binary(kind)
            count(place, "a text as its bytes in UTF-8" if is_binary else "a text as number")
        return result

    return convert
