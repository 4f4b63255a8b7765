"""What a record of JSON means, by Python's own reader, one value at a time."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Bad(Exception):
    """What the plain reader says of a record that is bad."""


def plainly(value: bytes, schema: pa.Schema) -> dict[str, Any]:
    """One record, by Python's own JSON."""
    try:
        pairs = json.loads(
            value.decode(), object_pairs_hook=Pairs, parse_constant=float, parse_float=finite
        )
    except (ValueError, RecursionError) as error:
        raise Bad(str(error)) from error
    wants(isinstance(pairs, Pairs) and levels(pairs) <= 200)
    return fields_of(pairs, [(field.name, field.type) for field in schema])


class Pairs(list[Any]):
    pass


def levels(node: Any) -> int:
    inner = [one for _, one in node] if isinstance(node, Pairs) else node
    return 1 + max(map(levels, inner), default=0) if isinstance(inner, list) else 0


def finite(text: str) -> float:
    wants(math.isfinite(float(text)))
    return float(text)


def fields_of(pairs: Pairs, fields: list[tuple[str, Any]]) -> dict[str, Any]:
    values = {}
    for name, kind in fields:
        given_values = [value for key, value in pairs if key == name]
        if len(given_values) > 1:
            raise Bad(f"{name} twice")
        values[name] = plain_value(given_values[0], kind) if given_values else None
    return values


def plain_value(value: Any, kind: Any) -> Any:
    types = pa.types
    if value is None:
        return None
    if types.is_struct(kind):
        wants(isinstance(value, Pairs))
        return fields_of(value, [(one.name, one.type) for one in kind])
    if types.is_map(kind):
        wants(isinstance(value, Pairs))
        return [(key, plain_value(one, kind.item_type)) for key, one in value]
    if types.is_list(kind):
        wants(isinstance(value, list) and not isinstance(value, Pairs))
        return [plain_value(one, kind.value_type) for one in value]
    if types.is_boolean(kind):
        wants(isinstance(value, bool))
        return value
    wants(isinstance(value, (int, float, str)) and not isinstance(value, bool))
    if types.is_integer(kind):
        wants(
            isinstance(value, int) and -(1 << kind.bit_width - 1) <= value < 1 << kind.bit_width - 1
        )
        return value
    if types.is_float64(kind):
        wants(not isinstance(value, str) and math.isfinite(value))
        return float(value)
    if types.is_decimal(kind):
        return plain_decimal(value, kind)
    if types.is_date32(kind):
        return plain_date(value)
    if types.is_timestamp(kind):
        return plain_time(value, kind)
    wants(isinstance(value, str) and is_unicode(value))
    return base64_of(value) if types.is_binary(kind) else value


def wants(claim: bool) -> None:
    if not claim:
        raise Bad("another type")


def is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain_decimal(value: Any, kind: Any) -> Decimal:
    try:
        number = Decimal(str(value))
        scaled = number.quantize(Decimal(1).scaleb(-kind.scale))
    except ArithmeticError as error:
        raise Bad("no decimal") from error
    wants(
        number.is_finite() and scaled == number and len(scaled.as_tuple().digits) <= kind.precision
    )
    return scaled


def plain_date(value: Any) -> date:
    try:
        if isinstance(value, int):
            return date(1970, 1, 1) + timedelta(days=value)
        return date.fromisoformat(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise Bad("no date") from error


def plain_time(value: Any, kind: Any) -> datetime:
    if isinstance(value, int):
        per_s = {"ms": 1_000, "us": 1_000_000}[kind.unit]
        try:
            moment = EPOCH + timedelta(microseconds=value * 1_000_000 // per_s)
        except OverflowError as error:
            raise Bad("no year") from error
    else:
        try:
            moment = datetime.fromisoformat(value)
        except (TypeError, ValueError) as error:
            raise Bad("no time") from error
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment if kind.tz else moment.replace(tzinfo=None)


def base64_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise Bad("no base 64") from error
