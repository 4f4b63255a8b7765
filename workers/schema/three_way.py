"""A three-way merge of schemas by field path (requirements 2.4): two writers' changes of one base.

Struct fields are matched by name; a list's item is `element`, a map's value is `value`. The result
is in the order of theirs, with our new fields at the end of their struct. The fields and their
types do not depend on the order of the commits. Pure; reads no data.

Types are joined along an order of only those promotions that lose nothing and keep the order of
values: `int < long`, `int < double`, `float < double`, wider decimals, and the same inside structs,
lists and maps. It is stricter than `wider_types`, which also defines the types that a batch may
have, and symmetric: the order of the commits does not matter.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from workers.files.avro_schema import AvroType, Field, ListOf, MapOf, Place, Scalar, Struct
from workers.schema.wider_types import can_add, common_type, preserves_order


def join(left: AvroType, right: AvroType) -> AvroType | None:
    """Return the least type that holds every value of both; None if there is none.

    Fields of a struct that only one has follow the left's; they must be optional or have a default.
    """
    if left == right:
        return left
    match left, right:
        case Struct(), Struct():
            return _join_structs(left, right)
        case ListOf(a), ListOf(b):
            place = join_places(a, b)
            return ListOf(place) if place else None
        case MapOf(a), MapOf(b):
            place = join_places(a, b)
            return MapOf(place) if place else None
        case Scalar(), Scalar() if _is_number(left) and _is_number(right):
            return common_type(left, right)
        case _:
            return None


def join_places(left: Place, right: Place) -> Place | None:
    """Join two places; the result is optional if one of them is."""
    joined_type = join(left.type, right.type)
    return Place(joined_type, left.is_nullable or right.is_nullable) if joined_type else None


def join_fields(left: Field, right: Field) -> Field | None:
    """Join a field that both writers added, or made optional; None if that is not possible."""
    if left == right:
        return left
    if (left.default, left.order) != (right.default, right.order):
        return None
    if not (left.place.is_nullable and right.place.is_nullable):
        return None
    place = join_places(left.place, right.place)
    return Field(left.name, place, left.default, left.order) if place else None


def is_below(narrow: AvroType, wide: AvroType) -> bool:
    """Check if files with `narrow` are readable under `wide` without loss."""
    match narrow, wide:
        case Struct(), Struct():
            return narrow.is_error == wide.is_error and _is_struct_below(narrow, wide)
        case (ListOf(a), ListOf(b)) | (MapOf(a), MapOf(b)):
            return _is_place_below(a, b)
        case _:
            return join(narrow, wide) == wide


def _is_place_below(narrow: Place, wide: Place) -> bool:
    return is_below(narrow.type, wide.type) and (wide.is_nullable or not narrow.is_nullable)


def _is_struct_below(narrow: Struct, wide: Struct) -> bool:
    return all(
        (other := wide.field(field.name)) is not None and _is_place_below(field.place, other.place)
        for field in narrow.fields
    ) and all(can_add(field) for field in wide.fields if narrow.field(field.name) is None)


def _is_number(scalar: Scalar) -> bool:
    is_plain = scalar.logical is None and scalar.kind in ("int", "long", "float", "double")
    return is_plain or scalar.logical == "decimal"


def _join_structs(left: Struct, right: Struct) -> Struct | None:
    if left.is_error != right.is_error:
        return None
    fields: list[Field] = []
    for field in left.fields:
        other = right.field(field.name)
        if other is None:
            joined_field = field if can_add(field) else None
        else:
            joined_field = join_fields(field, other)
        if joined_field is None:
            return None
        fields.append(joined_field)
    added = [field for field in right.fields if left.field(field.name) is None]
    names = [field.name.lower() for field in (*fields, *added)]
    if len(set(names)) < len(names) or not all(map(can_add, added)):
        return None
    return Struct((*fields, *added), left.is_error)


@dataclass(frozen=True, slots=True)
class Clash:
    """A path whose two changes have no common outcome."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Drops:
    """The top-level columns that were dropped explicitly, in lower case, and the columns that ours
    wrote.

    A column that is gone without a recorded drop was renamed, or undone by a restore: no writer
    agreed to losing it (E-20, E-22).
    """

    by_ours: Collection[str] = ()
    by_theirs: Collection[str] = ()
    written_by_ours: Collection[str] = ()
    """Columns into which our files bring values."""
    ours_has_files: bool = True


def merge_three_ways(
    base: Struct | None,
    ours: Struct,
    theirs: Struct,
    *,
    pinned: Collection[str] = (),
    ordering: Collection[str] = (),
    drops: Drops | None = None,
) -> tuple[Struct, list[Clash]]:
    """Return (the merged schema, its clashes). The schema is valid only without clashes.

    `base` is None if both began without a schema. `pinned` columns (key, partition) must be the
    same in all three; those of `ordering` must compare alike (`preserves_order`).
    """
    merge = _Merge(frozenset(pinned), frozenset(ordering), drops or Drops())
    return merge.merge_structs("", base, ours, theirs), merge.clashes


class _Merge:
    def __init__(self, pinned: frozenset[str], ordering: frozenset[str], drops: Drops) -> None:
        self._pinned = pinned
        self._ordering = ordering
        self._kept = pinned | ordering
        self._drops = drops
        self.clashes: list[Clash] = []

    def merge_structs(
        self, prefix: str, base: Struct | None, ours: Struct, theirs: Struct
    ) -> Struct:
        fields: list[Field] = []
        base_struct = base or Struct(())
        for their in theirs.fields:
            path = prefix + their.name
            field = self._merge_theirs(
                path, base_struct.field(their.name), ours.field(their.name), their
            )
            if field is not None:
                fields.append(field)
        for our in ours.fields:
            if theirs.field(our.name) is None:
                added = self._merge_ours(prefix + our.name, base_struct.field(our.name), our)
                if added is not None:
                    fields.append(added)
        self._check_gone(prefix, base_struct, ours, theirs)
        self._check_names(prefix, fields)
        self._check_order(prefix, base_struct, ours)
        if ours.is_error != theirs.is_error:
            self._clash(prefix.rstrip("."), "is a record here and an error there")
        return Struct(tuple(fields), theirs.is_error)

    def _merge_theirs(
        self, path: str, base: Field | None, our: Field | None, their: Field
    ) -> Field | None:
        if base is None:
            if our is None:
                return self._add(path, their, "the other writer")
            return self._join_added(path, our, their)
        if our is None:
            return self._check_drop(path, base, their)
        return self._merge_changes(path, base, our, their)

    def _merge_ours(self, path: str, base: Field | None, our: Field) -> Field | None:
        if base is None:
            return self._add(path, our, "this writer")
        if path.lower() not in self._drops.by_theirs:
            self._clash(path, "is gone from the table without being dropped: renamed or restored")
        elif our != base:
            self._clash(path, "was dropped by the other writer and changed by this one")
        elif path in self._drops.written_by_ours:
            self._clash(path, "was dropped by the other writer, and this one brings values for it")
        return None

    def _add(self, path: str, field: Field, by: str) -> Field | None:
        if path in self._kept:
            self._clash(path, "is a key, partition or ordering column that only one side has")
        if can_add(field):
            return field
        self._clash(path, f"was added by {by} as required, without a default for older rows")
        return None

    def _join_added(self, path: str, our: Field, their: Field) -> Field | None:
        if path in self._kept and our != their:
            self._clash(path, f"is a key, partition or ordering column: {_format_both(our, their)}")
        elif (joined := join_fields(their, our)) is not None:
            return joined
        else:
            self._clash(path, f"was added by both, {_format_both(our, their)}, which do not join")
        return None

    def _check_drop(self, path: str, base: Field, their: Field) -> Field | None:
        if path.lower() not in self._drops.by_ours:
            self._clash(path, "is gone from this writer's schema without being dropped: renamed?")
        elif their != base:
            self._clash(path, "was dropped by this writer and changed by the other")
        elif self._drops.ours_has_files:
            self._clash(path, "was dropped by this writer, which also writes rows")
        return None

    def _merge_changes(self, path: str, base: Field, our: Field, their: Field) -> Field | None:
        if not self._is_kept(path, base, our, their):
            self._clash(path, f"is a key, partition or ordering column: {_format_both(our, their)}")
            return None
        place = self._merge_places(path, base.place, our.place, their.place)
        default = self._merge_default(path, base, our, their)
        if our.order not in (base.order, their.order):
            self._clash(path, "has another sort order in this writer's schema")
        return Field(their.name, place, default, their.order)

    def _is_kept(self, path: str, base: Field, our: Field, their: Field) -> bool:
        """Check that pinned columns are the same, and that ordering columns compare alike."""
        if path in self._pinned:
            return base.place == our.place == their.place
        is_ordered = path in self._ordering
        return not is_ordered or all(
            preserves_order(base.place, side.place) for side in (our, their)
        )

    def _merge_default(self, path: str, base: Field, our: Field, their: Field) -> str | None:
        """Merge the defaults. A default of null comes with relaxing a column; any other change is
        the table's.
        """
        if our.default in (base.default, their.default):
            return their.default
        is_relaxed = our.place.is_nullable and not base.place.is_nullable
        if their.default == base.default and is_relaxed:
            return our.default
        self._clash(path, f"has another default in this writer's schema: {our.default}")
        return their.default

    def _merge_places(self, path: str, base: Place, our: Place, their: Place) -> Place:
        if base.is_nullable and not (our.is_nullable and their.is_nullable):
            self._clash(path, "was optional and is required now: older rows may lack it")
        merged_type = self._merge_types(path, base.type, our.type, their.type)
        return Place(merged_type, our.is_nullable or their.is_nullable)

    def _merge_types(self, path: str, base: AvroType, our: AvroType, their: AvroType) -> AvroType:
        match base, our, their:
            case Struct(), Struct(), Struct():
                return self.merge_structs(f"{path}.", base, our, their)
            case ListOf(a), ListOf(b), ListOf(c):
                return ListOf(self._merge_places(f"{path}.element", a, b, c))
            case MapOf(a), MapOf(b), MapOf(c):
                return MapOf(self._merge_places(f"{path}.value", a, b, c))
            case _:
                return self._join_types(path, base, our, their)

    def _join_types(self, path: str, base: AvroType, our: AvroType, their: AvroType) -> AvroType:
        for changed, by in ((our, "this writer"), (their, "the other writer")):
            if not is_below(base, changed):
                self._clash(path, f"became {changed} by {by}, which does not hold every {base}")
                return their
        joined = join(their, our)
        if joined is None:
            self._clash(path, f"became {our} here and {their} there, which no type holds both of")
            return their
        return joined

    def _check_gone(self, prefix: str, base: Struct, ours: Struct, theirs: Struct) -> None:
        for field in base.fields:
            if ours.field(field.name) is None and theirs.field(field.name) is None:
                path = prefix + field.name
                dropped = {*self._drops.by_ours, *self._drops.by_theirs}
                if path.lower() not in dropped or path in self._kept:
                    self._clash(path, "is gone from both schemas without being dropped: renamed?")

    def _check_names(self, prefix: str, fields: Collection[Field]) -> None:
        seen: dict[str, str] = {}
        for field in fields:
            other = seen.setdefault(field.name.lower(), field.name)
            if other != field.name:
                self._clash(prefix + field.name, f"differs only by case from {prefix}{other}")

    def _check_order(self, prefix: str, base: Struct, ours: Struct) -> None:
        """Check that we moved no column: their order is used, so a new order of ours would be
        lost.
        """
        before = [field.name for field in base.fields if ours.field(field.name) is not None]
        after = [field.name for field in ours.fields if base.field(field.name) is not None]
        for old, new in zip(before, after, strict=True):
            if old != new:
                self._clash(prefix + new, "was moved by this writer")
                return

    def _clash(self, path: str, reason: str) -> None:
        self.clashes.append(Clash(path, reason))


def _format_both(our: Field, their: Field) -> str:
    return f"as {_format_field(our)} here and {_format_field(their)} there"


def _format_field(field: Field) -> str:
    is_plain = field.default in (None, "null")
    return str(field.place) if is_plain else f"{field.place} = {field.default}"
