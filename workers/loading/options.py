"""Options of reading a file of rows: those of every entry point, parsed from text and checked."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from workers.errors import InvalidInput

FORMATS: Final = ("csv", "json", "parquet", "arrow")
COMPRESSIONS: Final = ("none", "gzip", "zstd")
NAMES: Final = ("as_is", "clean")
DECODED_KEY: Final = "decoded_gb_max"
"""An option for admins: it lets a small file take any amount of time and memory."""
DECODED_GB_LIMIT: Final = 4096
_BY_SUFFIX: Final = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
}
_COMPRESSION_BY_SUFFIX: Final = {".gz": "gzip", ".zst": "zstd"}
_SWITCHES: Final = {"true": True, "yes": True, "false": False, "no": False}
_SCALARS: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}
_DECIMAL: Final = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")
_TYPE_PAIR: Final = re.compile(r"\s*([^=:;]+?)\s*[=:]\s*([a-z_]+(?:\([^)]*\))?)\s*(?:[;,]|$)")
_DIGITS_MAX: Final = 38


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The way a file is read. What is left out goes by the file's name and RFC 4180."""

    format: str = ""
    """One of `FORMATS`; empty goes by the file's name."""
    compression: str = ""
    """One of `COMPRESSIONS`; empty goes by the file's name."""
    delimiter: str = ""
    """In a CSV; empty is a comma, and a tab for `.tsv`."""
    quote: str = '"'
    escape: str = ""
    encoding: str = "utf-8"
    header: bool = True
    """Without a header line the columns are the table's, or `column_1`, `column_2` and on."""
    null_words: tuple[str, ...] = ("NA",)
    """Words that stand for a missing value where they are not quoted, as the empty field does."""
    time_zone: str = ""
    """Of times that name no zone, in columns that have one."""
    decimal_comma: bool = False
    column_types: Mapping[str, pa.DataType] = field(default_factory=lambda: MappingProxyType({}))
    """Of columns that the table does not have."""
    names: str = "as_is"
    key: str = ""
    """The name of a column made of `key_from`; empty where the file has its own key."""
    key_from: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """Only these, in this order; empty for all. The made key is always among them."""
    decoded_gb_max: int = 1
    """GiB that a Parquet file may decode to where that is more than 1000 times its size."""

    def __post_init__(self) -> None:
        _check_choice("format", self.format, FORMATS)
        _check_choice("compression", self.compression, COMPRESSIONS)
        _check_choice("names", self.names or "?", NAMES)
        for name in ("delimiter", "quote", "escape"):
            _check_sign(name, getattr(self, name))
        signs = [sign for sign in (self.delimiter or ",", self.quote, self.escape) if sign]
        if len(set(signs)) < len(signs):
            raise InvalidInput("delimiter, quote and escape must be different characters")
        if self.decimal_comma and self.delimiter == ",":
            raise InvalidInput("decimal_comma needs another delimiter than a comma, such as ;")
        _check_encoding(self.encoding)
        if self.time_zone:
            zone_named(self.time_zone)
        if bool(self.key) != bool(self.key_from):
            raise InvalidInput("a made key needs a name and columns", key=self.key)

    def get_format(self, name: str) -> str:
        """Return the format of a file of this name. Raises InvalidInput where the name has none."""
        if format_ := self.format or format_named(name):
            return format_
        raise InvalidInput(
            "the file's name does not show its format; give format=csv, json, parquet or arrow",
            file=PurePosixPath(name).name[:80],
        )

    def get_compression(self, name: str) -> str:
        """Return the compression of a file of this name."""
        by_name = _COMPRESSION_BY_SUFFIX.get(PurePosixPath(name).suffix.lower(), "none")
        return self.compression or by_name

    def get_delimiter(self, name: str) -> str:
        """Return what separates the fields of a CSV file of this name."""
        if self.delimiter:
            return self.delimiter
        if self.decimal_comma:
            return ";"
        is_tabbed = _without_compression(name).lower().endswith(".tsv")
        return "\t" if is_tabbed else ","


def format_named(name: str) -> str:
    """Return the format that a file's name shows, or nothing."""
    return _BY_SUFFIX.get(PurePosixPath(_without_compression(name)).suffix.lower(), "")


def without_suffixes(name: str) -> str:
    """Return a file's name without what shows its compression and its format."""
    plain = _without_compression(name)
    return plain[: -len(PurePosixPath(plain).suffix)] if format_named(plain) else plain


def load_options(given: Mapping[str, Any]) -> LoadOptions:
    """Return the options that texts or JSON values by name ask for; empty ones are left out.

    Raises InvalidInput, which names the option and what it takes.
    """
    if unknown := sorted(set(given) - set(OPTION_KEYS)):
        raise InvalidInput("unknown load option", keys=unknown, known=list(OPTION_KEYS))
    words = dict(given)
    # The option that loads had first: one word, where null_words has several.
    missing = words.pop("missing", None)
    if missing and words.get("null_words") in (None, ""):
        words["null_words"] = [missing]
    typed = {
        name: _PARSERS[name](name, value)
        for name, value in words.items()
        if value is not None and value != ""
    }
    return LoadOptions(**typed)


def options_as_text(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the load options among `options`, each as one text: a job carries nothing else."""
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in options.items()
        if name in OPTION_KEYS and value not in (None, "")
    }


def zone_named(name: str) -> ZoneInfo:
    """Return the time zone. Raises InvalidInput for a name that no zone has."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(
            "time_zone must be a zone's name such as Europe/Oslo or UTC", time_zone=name[:80]
        ) from error


def column_type(text: str, column: str) -> pa.DataType:
    """Return the type that CREATE TABLE names so; lists of scalars are the only nested ones.

    Raises InvalidInput.
    """
    plain = text.strip().lower().replace(" ", "")
    if plain in _SCALARS:
        return _SCALARS[plain]
    if plain.startswith("array<") and plain.endswith(">"):
        return pa.list_(pa.field("element", column_type(plain[6:-1], column)))
    if digits := _DECIMAL.fullmatch(plain):
        precision, scale = int(digits[1]), int(digits[2])
        if 0 < precision <= _DIGITS_MAX and scale <= precision:
            return pa.decimal128(precision, scale)
    raise InvalidInput(
        "a column's type must be one of these, or decimal(digits,scale)",
        column=column[:80],
        type=text[:40],
        known=list(_SCALARS),
    )


def comma_names(text: str) -> tuple[str, ...]:
    """`a, b` as names."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _without_compression(name: str) -> str:
    path = PurePosixPath(name)
    is_compressed = path.suffix.lower() in _COMPRESSION_BY_SUFFIX
    return str(path.with_suffix("")) if is_compressed else name


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value and value not in known:
        raise InvalidInput(f"{name} must be one of {', '.join(known)}", given=value[:40])


def _check_sign(name: str, sign: str) -> None:
    if sign and (len(sign) != 1 or not sign.isascii() or sign in "\r\n\0"):
        raise InvalidInput(f"{name} must be one ASCII character", given=sign[:40])


def _check_encoding(encoding: str) -> None:
    try:
        info = codecs.lookup(encoding)
    except (LookupError, ValueError) as error:
        raise InvalidInput(
            "encoding must name one, such as utf-8, latin-1, cp1252 or utf-16", given=encoding[:40]
        ) from error
    if not info._is_text_encoding:
        raise InvalidInput("encoding must be one of text", given=encoding[:40])


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be a text", given=str(value)[:40])
    return value


def _word(name: str, value: Any) -> str:
    return _text(name, value).strip().lower()


def _sign(name: str, value: Any) -> str:
    text = _text(name, value)
    return {"\\t": "\t", "tab": "\t", "none": ""}.get(text.lower(), text)


def _switch(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _SWITCHES:
        return _SWITCHES[value.lower()]
    raise InvalidInput(f"{name} must be true or false", given=str(value)[:40])


def _gigabytes(name: str, value: Any) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal() or not 1 <= int(text) <= DECODED_GB_LIMIT:
        raise InvalidInput(
            f"{name} must be a whole number from 1 to {DECODED_GB_LIMIT}", given=text[:40]
        )
    return int(text)


def _list(name: str, value: Any) -> tuple[str, ...]:
    """Return a JSON list of texts, or a text with commas. `none` is an empty list."""
    if isinstance(value, str):
        if value.strip().lower() in ("none", "[]"):
            return ()
        if not value.lstrip().startswith("["):
            return comma_names(value)
        try:
            value = json.loads(value)
        except ValueError as error:
            raise InvalidInput(f"{name} is not a JSON list", given=value[:40]) from error
    if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
        raise InvalidInput(f"{name} must be a list of texts", given=str(value)[:40])
    return tuple(value)


def _types(name: str, value: Any) -> Mapping[str, pa.DataType]:
    """Return types by column of JSON, or of `zip=string; price=decimal(10,2)`."""
    if isinstance(value, str):
        value = _type_pairs(value)
    if not isinstance(value, Mapping) or not all(
        isinstance(entry, str) for entry in value.values()
    ):
        raise InvalidInput(f"{name} must have a type for each column", given=str(value)[:80])
    return MappingProxyType(
        {str(entry): column_type(kind, str(entry)) for entry, kind in value.items()}
    )


def _type_pairs(text: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise InvalidInput("column_types is not a JSON object", given=text[:80]) from error
    pairs, at = {}, 0
    while at < len(text.rstrip()):
        pair = _TYPE_PAIR.match(text, at)
        if pair is None:
            raise InvalidInput(
                "column_types must be written as zip=string; price=decimal(10,2)", given=text[:80]
            )
        pairs[pair[1]] = pair[2]
        at = pair.end()
    return pairs


_PARSERS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "format": _word,
    "compression": _word,
    "delimiter": _sign,
    "quote": _sign,
    "escape": _sign,
    "encoding": _word,
    "header": _switch,
    "null_words": _list,
    "time_zone": _text,
    "decimal_comma": _switch,
    "column_types": _types,
    "names": _word,
    "key": _text,
    "key_from": _list,
    "columns": _list,
    DECODED_KEY: _gigabytes,
}
OPTION_KEYS: Final = ("missing", *_PARSERS)
"""The names of all options at every entry point."""
