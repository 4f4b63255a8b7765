"""What two evolutions of one schema come to in a serial order, by another road than the engine's:
each is a list of operations on flat paths, replayed on what the other one left (requirements 2.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from workers.files.avro_schema import AvroType, Field, ListOf, MapOf, Place, Scalar, Struct

WIDENINGS = {("int", "long"), ("int", "double"), ("float", "double")}


@dataclass(frozen=True)
class Node:
    """What stands at a path: a scalar's type, or `struct`, `list`, `map`."""

    kind: str
    is_nullable: bool
    default: str | None = None
    is_item: bool = False
    """Of a list or a map: it is there as soon as its parent is."""

    @property
    def is_free_to_add(self) -> bool:
        return self.is_nullable or self.default is not None


Flat = dict[str, Node]


class Impossible(Exception):
    """The operation cannot be done on what stands there."""


@dataclass(frozen=True)
class Operation:
    path: str
    before: Node | None
    after: Node | None


def flat(tree: Struct | None) -> Flat:
    return dict(_nodes("", tree)) if tree else {}


def in_both_orders(base: Flat, ours: Flat, theirs: Flat) -> Flat | None:
    """The one outcome of both serial orders; None when an order fails or the two differ."""
    mine, other = operations(base, ours), operations(base, theirs)
    if any(map(_sets_a_default, mine)):
        return None  # Requirements 2.4: of ours only additions, widenings and relaxations merge.
    try:
        outcomes = replayed(mine, theirs), replayed(other, ours)
    except Impossible:
        return None
    return outcomes[0] if outcomes[0] == outcomes[1] else None


def operations(base: Flat, made: Flat) -> list[Operation]:
    paths = [*base, *(path for path in made if path not in base)]
    return [
        Operation(path, base.get(path), made.get(path))
        for path in paths
        if base.get(path) != made.get(path)
    ]


def replayed(todo: list[Operation], on: Flat) -> Flat:
    """Raises Impossible."""
    nodes = dict(on)
    added = {one.path for one in todo if one.before is None and one.path not in on}
    for operation in todo:
        if operation.after is None:
            raise Impossible("nobody agreed to lose a column")
        current = nodes.get(operation.path)
        if operation.before is None:
            # Inside something that is added as a whole there are no older rows.
            is_inside = any(operation.path.startswith(f"{parent}.") for parent in added)
            nodes[operation.path] = _added(current, operation.after, is_inside)
        elif current is None:
            raise Impossible("it is gone")
        else:
            nodes[operation.path] = _changed(current, operation.before, operation.after)
    lowered = [path.lower() for path in nodes]
    if len(set(lowered)) < len(lowered):
        raise Impossible("two names differ only by case")
    return nodes


def _sets_a_default(operation: Operation) -> bool:
    if (
        operation.before is None
        or operation.after is None
        or operation.before.default == operation.after.default
    ):
        return False
    return not (operation.after.is_nullable and not operation.before.is_nullable)


def _added(current: Node | None, new: Node, is_inside: bool) -> Node:
    if current == new:
        return new
    if current is None:
        if not (new.is_free_to_add or is_inside):
            raise Impossible("older rows have no value for it")
        return new
    is_optional = current.is_nullable and new.is_nullable
    if current.default != new.default or not (is_optional or new.is_item):
        raise Impossible("added twice, differently")
    is_nullable = current.is_nullable or new.is_nullable
    return replace(new, kind=_upper(current.kind, new.kind), is_nullable=is_nullable)


def _changed(current: Node, before: Node, after: Node) -> Node:
    if before.is_nullable and not after.is_nullable:
        raise Impossible("tightened")
    if _upper(before.kind, after.kind) != after.kind:
        raise Impossible("narrowed")
    is_relaxed = after.is_nullable and not before.is_nullable
    is_set = is_relaxed or after.default != before.default
    return Node(
        _upper(current.kind, after.kind),
        current.is_nullable or after.is_nullable,
        after.default if is_set else current.default,
        after.is_item,
    )


def _upper(left: str, right: str) -> str:
    for narrow, wide in ((left, right), (right, left)):
        if narrow == wide or (narrow, wide) in WIDENINGS:
            return wide
    if left.startswith("decimal") and right.startswith("decimal"):
        return _upper_decimal(left, right)
    raise Impossible(f"no type holds {left} and {right}")


def _upper_decimal(left: str, right: str) -> str:
    digits = [tuple(map(int, one[8:-1].split(","))) for one in (left, right)]
    scale = max(one[1] for one in digits)
    precision = max(one[0] - one[1] for one in digits) + scale
    if precision > 38:
        raise Impossible("wider than a decimal can be")
    return f"decimal({precision},{scale})"


def _nodes(prefix: str, tree: Struct) -> Iterator[tuple[str, Node]]:
    for field in tree.fields:
        yield from _of_place(f"{prefix}{field.name}", field.place, field)


def _of_place(path: str, place: Place, field: Field | None = None) -> Iterator[tuple[str, Node]]:
    default = field.default if field else None
    yield path, Node(_kind(place.type), place.is_nullable, default, is_item=field is None)
    match place.type:
        case Struct():
            yield from _nodes(f"{path}.", place.type)
        case ListOf(inner):
            yield from _of_place(f"{path}.element", inner)
        case MapOf(inner):
            yield from _of_place(f"{path}.value", inner)
        case _:
            pass


def _kind(avro: AvroType) -> str:
    match avro:
        case Scalar(logical="decimal"):
            return f"decimal({avro.precision},{avro.scale})"
        case Scalar():
            return f"{avro.kind} {avro.logical}" if avro.logical else avro.kind
        case Struct():
            return "struct"
        case ListOf():
            return "list"
        case MapOf():
            return "map"
        case _:
            return str(avro)
