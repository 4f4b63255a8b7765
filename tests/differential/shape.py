"""Draw the kind of table: its type, index, keys, partitions, merge rule and columns."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
SINGLE, OPTIMISTIC, NON_BLOCKING = (
    "SINGLE_WRITER",
    "OPTIMISTIC_CONCURRENCY_CONTROL",
    "NON_BLOCKING_CONCURRENCY_CONTROL",
)
INDEXES = ("BUCKET", "BUCKET", "BUCKET", "SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM")
Draw = Callable[[random.Random], Any]


def _of(*values: Any) -> Draw:
    return lambda draw: draw.choice(values)


_DAY = dt.date(2026, 1, 1)
_AT = dt.datetime(2026, 1, 1, 12, 30, 0, 123456, dt.UTC)
TEXTS = ("", "a", "Köln", "x" * 40, "日本\n\t'\"", "😀", "null", " a ")
_STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
VALUES: Mapping[str, tuple[pa.DataType, Draw]] = {
    "flag": (pa.bool_(), _of(True, False)),
    "long": (pa.int64(), _of(0, 1, -1, 2**63 - 1, -(2**63))),
    "single": (pa.float32(), _of(0.0, -0.0, 1.5, math.inf, math.nan)),
    "double": (pa.float64(), _of(0.0, -0.0, 0.1, -1e308, -math.inf, math.nan)),
    "text": (pa.string(), _of(*TEXTS)),
    "bytes": (pa.binary(), _of(b"", b"\x00\xff", b"abc")),
    "day": (pa.date32(), _of(_DAY, dt.date(1, 1, 1), dt.date(9999, 12, 31))),
    "moment": (pa.timestamp("us", "UTC"), _of(_AT, dt.datetime(1582, 10, 4, tzinfo=dt.UTC))),
    "price": (pa.decimal128(10, 2), _of(Decimal("0.00"), Decimal("-1.50"), Decimal("99999999.99"))),
    "big": (pa.decimal128(38, 6), _of(Decimal("0.000001"), Decimal(10) ** 31 + Decimal("0.5"))),
    "list": (pa.list_(pa.string()), _of([], ["a", None, ""], ["x"])),
    "struct": (_STRUCT, _of({"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 2, "b": ""})),
    "map": (pa.map_(pa.string(), pa.int64()), _of([], [("k", 1), ("", None)])),
}
"""Types of the columns that hold nothing but values, and what is drawn for them besides null."""
AGES: Mapping[str, tuple[pa.DataType, Draw]] = {
    "long": (pa.int64(), lambda draw: draw.randrange(1, 6)),
    "int": (pa.int32(), lambda draw: draw.randrange(1, 6)),
    "moment": (
        pa.timestamp("us", "UTC"),
        lambda draw: _AT + dt.timedelta(microseconds=draw.randrange(1, 6)),
    ),
    "day": (pa.date32(), lambda draw: _DAY + dt.timedelta(draw.randrange(1, 6))),
    "price": (pa.decimal128(10, 2), lambda draw: Decimal(draw.randrange(1, 6)) / 100),
    "double": (pa.float64(), lambda draw: draw.randrange(1, 6) / 4),
}
KEYS: Mapping[str, Mapping[str, tuple[pa.DataType, tuple[Any, ...]]]] = {
    "text": {"id": (pa.string(), ("a", "b", "c", "d", "Köln", "😀", "e f"))},
    "long": {"id": (pa.int64(), (0, 1, -1, 7, 2**62, 12, 13))},
    "int": {"id": (pa.int32(), (0, 1, -1, 7, 11, 12, 13))},
    "date": {"id": (pa.date32(), tuple(_DAY + dt.timedelta(n) for n in range(7)))},
    "decimal": {"id": (pa.decimal128(8, 2), tuple(Decimal(n) / 4 for n in range(-2, 5)))},
    "several": {"id": (pa.string(), ("a", "b", "c")), "no": (pa.int64(), (1, 2, 30))},
}
PARTITIONS: Mapping[str, Mapping[str, tuple[pa.DataType, tuple[Any, ...]]]] = {
    "none": {},
    "text": {"place": (pa.string(), ("oslo", "Köln", "a b", None))},
    "date": {"place": (pa.date32(), (_DAY, dt.date(2026, 2, 1)))},
    "int": {"place": (pa.int32(), (1, 2))},
    "two": {"place": (pa.string(), ("oslo", "rome")), "zone": (pa.int32(), (1, 2))},
}
AGE, OTHER_AGE, NUMBER, DELETED = "ts", "ts2", "n", "_hoodie_is_deleted"


@dataclass(frozen=True)
class Shape:
    """One kind of table."""

    table_type: str
    index: str
    key: str
    partitions: str
    merge: str
    """`event`, `commit`, `partial event`, `partial commit`, `groups`."""
    age: str
    columns: tuple[str, ...]
    buckets: int
    flags: tuple[bool, bool]
    """Hive-style paths, encoded paths."""
    fills_small_files: bool
    group_rules: tuple[tuple[tuple[str, str], ...], ...] = ()
    """Settings of the two column groups, where the table has them."""

    @property
    def is_global(self) -> bool:
        return self.index.startswith("GLOBAL")

    @property
    def is_bucketed(self) -> bool:
        return self.index == "BUCKET"

    @property
    def is_mor(self) -> bool:
        return self.table_type == MOR

    @property
    def is_partial(self) -> bool:
        return self.merge.startswith("partial")

    @property
    def has_groups(self) -> bool:
        return self.merge == "groups"

    @property
    def compares_rows(self) -> bool:
        """Whether windows and changes compare values, not the commits that wrote them."""
        return self.is_partial or self.has_groups

    @property
    def groups(self) -> list[dict[str, Any]]:
        """As `hoodie.multistream.groups` has them; every column is in one of two."""
        names = [f"c_{name}" for name in self.columns]
        columns = ([NUMBER, *names[::2]], names[1::2] or ["c_none"])
        return [
            {"name": name, "ordering": [age], "columns": held, **dict(rules)}
            for name, age, held, rules in zip(
                ("one", "two"), (AGE, OTHER_AGE), columns, self.group_rules, strict=True
            )
        ]

    @property
    def by_event(self) -> bool:
        return self.merge.endswith("event")

    @property
    def takes_marks(self) -> bool:
        """Whether the model knows what becomes of rows that are marked as deleted: under an index
        that looks keys up it depends on files.
        """
        knows = self.is_bucketed or not self.is_mor
        return knows and not self.is_partial and self.age != "price"

    @property
    def modes(self) -> tuple[str, ...]:
        free = (NON_BLOCKING,) if self.is_mor and self.is_bucketed else ()
        return (SINGLE, OPTIMISTIC, *free, *free)

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(KEYS[self.key])

    @property
    def partition_names(self) -> tuple[str, ...]:
        return tuple(PARTITIONS[self.partitions])

    @property
    def schema(self) -> pa.Schema:
        types = {name: kind for name, (kind, _) in KEYS[self.key].items()}
        types |= {name: kind for name, (kind, _) in PARTITIONS[self.partitions].items()}
        types |= {AGE: AGES[self.age][0], NUMBER: pa.int32()}
        types |= {f"c_{name}": VALUES[name][0] for name in self.columns}
        if self.has_groups:
            types |= {OTHER_AGE: pa.int64()}
            types |= {} if len(self.columns) > 1 else {"c_none": pa.int64()}
        return pa.schema(types)

    @property
    def options(self) -> dict[str, str]:
        merge = "EVENT_TIME_ORDERING" if self.by_event else "COMMIT_TIME_ORDERING"
        options = {
            "hoodie.index.type": self.index,
            "hoodie.record.merge.mode": merge,
            "hoodie.datasource.write.hive_style_partitioning": str(self.flags[0]).lower(),
            "hoodie.datasource.write.partitionpath.urlencode": str(self.flags[1]).lower(),
        }
        if self.has_groups:
            del options["hoodie.record.merge.mode"]
            options["hoodie.multistream.groups"] = json.dumps(self.groups)
        if self.is_partial:
            options["hoodie.table.partial.update.mode"] = "IGNORE_DEFAULTS"
        if self.is_bucketed:
            options["hoodie.bucket.index.num.buckets"] = str(self.buckets)
        if "BLOOM" in self.index:
            options["hoodie.index.bloom.num_entries"] = "50"
        return options


def draw_shape(draw: random.Random) -> Shape:
    table_type = draw.choice((COW, MOR, MOR))
    index = draw.choice(INDEXES)
    merges = ["event", "event", "event", "commit", "partial commit"]
    if table_type == MOR:
        merges.append("partial event")
    if index == "BUCKET":
        merges += ["groups", "groups"]
    merge = draw.choice(merges)
    return Shape(
        table_type,
        index,
        draw.choice(("text", "text", "text", *KEYS)),
        draw.choice(tuple(PARTITIONS)),
        merge,
        draw.choice(("long", "long", *AGES)),
        tuple(draw.sample(sorted(VALUES), draw.randint(0, 4))),
        draw.choice((1, 2, 2, 4)),
        (draw.random() < 0.5, draw.random() < 0.5),
        # What a base file that takes inserts forgets of the ages of columns, files alone tell.
        draw.random() < 0.5 and merge != "partial event",
        (_draw_rules(draw), _draw_rules(draw)) if merge == "groups" else (),
    )


def _draw_rules(draw: random.Random) -> tuple[tuple[str, str], ...]:
    choices = (("granularity", "column"), ("on_late", "overwrite"), ("null_mode", "keep"))
    rules = dict(one for one in choices if draw.random() < 0.3)
    if rules.get("null_mode") == "keep":
        rules["granularity"] = "column"
    return tuple(rules.items())
