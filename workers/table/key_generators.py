"""The key generator of a table, under Hudi's names: chosen when the table is created, and checked
before an existing table is written.

Without an option the type is inferred from the fields as Hudi does: SIMPLE, COMPLEX, NON_PARTITION.
TIMESTAMP has one key and one partition field, a time. CUSTOM has any number of each, with partition
fields such as `place:SIMPLE` or `ts:TIMESTAMP`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from workers.errors import InvalidInput
from workers.options.table_keys import CONFIGURED_GENERATOR_KEY, KEY_GENERATOR_KEY
from workers.options.table_options import TableConfig
from workers.options.time_partitions import (
    TIME_KEYS,
    FieldKind,
    TimeRule,
    has_times,
    parse_typed_fields,
    time_rule,
)

PARTITION_FIELDS_KEY: Final = "hoodie.table.partition.fields"
_TIMESTAMP, _CUSTOM = "TIMESTAMP", "CUSTOM"
_CONFIGURABLE: Final = ("", "SIMPLE", "COMPLEX", "NON_PARTITION", _TIMESTAMP, _CUSTOM)


@dataclass(frozen=True, slots=True)
class KeyGenerator:
    """How rows get their partition paths, under Hudi's names."""

    kind: str
    partition_by: tuple[str, ...]
    """Names alone."""
    times: tuple[str, ...] = ()
    rule: TimeRule | None = None

    @property
    def properties(self) -> dict[str, str]:
        """Kind and partition fields as a table's properties have them, typed for CUSTOM."""
        fields: Sequence[str] = self.partition_by
        if self.kind == _CUSTOM:
            fields = [
                f"{name}:{FieldKind.TIMESTAMP if name in self.times else FieldKind.SIMPLE}"
                for name in self.partition_by
            ]
        return {KEY_GENERATOR_KEY: self.kind, PARTITION_FIELDS_KEY: ",".join(fields)}


def choose_generator(
    record_key: Sequence[str], partition_by: Sequence[str], options: Mapping[str, str]
) -> KeyGenerator:
    """Return the key generator of a new table from its options. Raises InvalidInput."""
    options = {key: value for key, value in options.items() if value}
    generator = options.get(CONFIGURED_GENERATOR_KEY, "").upper()
    if generator not in _CONFIGURABLE:
        raise InvalidInput(
            "unknown key generator",
            key=CONFIGURED_GENERATOR_KEY,
            given=generator,
            known=_CONFIGURABLE[1:],
        )
    fields = parse_typed_fields(",".join(partition_by))
    names = tuple(name for name, _ in fields)
    is_typed = any(":" in field for field in partition_by)
    if is_typed and generator not in ("", _CUSTOM):
        raise InvalidInput("only the CUSTOM key generator has typed fields", given=partition_by)
    if (is_typed or generator == _CUSTOM) and any(kind is None for _, kind in fields):
        raise InvalidInput(
            "each partition field of the CUSTOM key generator is SIMPLE or TIMESTAMP",
            given=partition_by,
        )
    kind = _CUSTOM if is_typed else generator or _infer_type(record_key, names)
    _check_shape(kind, record_key, names)
    times = names if kind == _TIMESTAMP else ()
    if kind == _CUSTOM:
        times = tuple(name for name, told in fields if told is FieldKind.TIMESTAMP)
    if has_times(options) and not times:
        raise InvalidInput(
            "no partition field is a time; ask for the TIMESTAMP or CUSTOM key generator",
            given=sorted(key for key in TIME_KEYS if key in options),
        )
    return KeyGenerator(kind, names, times, time_rule(options) if times else None)


def _infer_type(record_key: Sequence[str], partition_by: Sequence[str]) -> str:
    if not partition_by:
        return "NON_PARTITION"
    return "SIMPLE" if len(record_key) == len(partition_by) == 1 else "COMPLEX"


def _check_shape(kind: str, record_key: Sequence[str], partition_by: Sequence[str]) -> None:
    if refusal := _shape_refusal(kind, record_key, partition_by):
        raise InvalidInput(refusal, record_key=record_key, partition_by=partition_by)


def _shape_refusal(kind: str, record_key: Sequence[str], partition_by: Sequence[str]) -> str | None:
    is_single = len(record_key) == len(partition_by) == 1
    if kind in ("SIMPLE", _TIMESTAMP) and not is_single:
        return f"the {kind} key generator has one key and one partition field; the table has others"
    if kind == "NON_PARTITION" and partition_by:
        return "the NON_PARTITION key generator contradicts the table's partition fields"
    return None


def find_generator_refusal(properties: Mapping[str, str], config: TableConfig) -> str | None:
    """Return why rows of this table cannot get the paths that its engine gives them; None if they
    can.
    """
    kind = config.key_generator.removesuffix("_AVRO")
    if kind not in _CONFIGURABLE:
        return f"key generator {config.key_generator} is read only"
    if refusal := _shape_refusal(kind, config.record_key, config.partition_by):
        return refusal
    fields = parse_typed_fields(properties.get(PARTITION_FIELDS_KEY, ""))
    if kind == _CUSTOM and any(field_kind is None for _, field_kind in fields):
        return "the properties do not contain the types of the partition fields"
    if config.time_fields:
        try:
            time_rule(properties)
        except InvalidInput as error:
            return f"partitions by time are not written: {error}"
    return None
