"""Laws of the lattice and of the three-way merge, on random trees."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sampling import examples
from tests.support.schema_oracle import flat, in_both_orders
from tests.workers.schema.trees import decimal, evolved, trees, types
from workers.files.avro_schema import AvroType, ListOf, MapOf, Scalar, Struct, parse_record
from workers.schema.three_way import is_below, join, merge_three_ways
from workers.schema.to_avro import field_to_avro

EXAMPLES = settings(max_examples=examples(60), deadline=None)
INT, LONG, FLOAT, DOUBLE, TEXT = (
    Scalar(kind) for kind in ("int", "long", "float", "double", "string")
)


def as_set(avro_type: AvroType | None) -> object:
    """Without the order of fields, which depends on who came first."""
    match avro_type:
        case Struct(fields):
            return frozenset(
                (one.name, as_set(one.place.type), one.place.is_nullable) for one in fields
            )
        case ListOf(place) | MapOf(place):
            return type(avro_type).__name__, as_set(place.type), place.is_nullable
        case _:
            return avro_type


def test_joins_lose_nothing_and_keep_the_order_of_values() -> None:
    table = {
        (INT, LONG): LONG,
        (INT, DOUBLE): DOUBLE,
        (FLOAT, DOUBLE): DOUBLE,
        (LONG, DOUBLE): None,
        (LONG, FLOAT): None,
        (INT, FLOAT): None,
        (INT, TEXT): None,
        (decimal(6, 2), decimal(6, 4)): decimal(8, 4),
        (decimal(38, 0), decimal(38, 38)): None,
        (INT, decimal(38, 0)): None,
        (TEXT, Scalar("bytes")): None,
        (LONG, Scalar("long", "timestamp-micros")): None,
        (Scalar("long", "timestamp-micros"), Scalar("long", "local-timestamp-micros")): None,
        (TEXT, Scalar("enum", name="e", symbols=("a",))): None,
    }

    for (left, right), expected in table.items():
        assert join(left, right) == expected, (left, right)
        assert join(right, left) == expected, (right, left)


@EXAMPLES
@given(types)
def test_join_is_idempotent(avro_type: AvroType) -> None:
    assert join(avro_type, avro_type) == avro_type


@EXAMPLES
@given(trees.flatmap(lambda base: st.tuples(evolved(base), evolved(base))))
def test_join_is_commutative_and_holds_both(pair: tuple[Struct, Struct]) -> None:
    left, right = pair
    joined = join(left, right)

    assert as_set(joined) == as_set(join(right, left))
    if joined is not None:
        assert is_below(left, joined)
        assert is_below(right, joined)


@EXAMPLES
@given(trees.flatmap(lambda base: st.tuples(evolved(base), evolved(base), evolved(base))))
def test_join_is_associative_wherever_both_groupings_exist(
    three: tuple[Struct, Struct, Struct],
) -> None:
    """int and float have no join, although double holds both: it may be missing half-way."""
    left_tree, middle_tree, right_tree = three
    first, last = join(left_tree, middle_tree), join(middle_tree, right_tree)
    left = join(first, right_tree) if first else None
    right = join(left_tree, last) if last else None

    if left is not None and right is not None:
        assert as_set(left) == as_set(right)


@EXAMPLES
@given(trees.flatmap(lambda base: st.tuples(st.just(base), evolved(base))))
def test_who_changes_alone_gets_what_he_made(pair: tuple[Struct, Struct]) -> None:
    base, made = pair

    assert merge_three_ways(base, made, base) == (made, [])
    assert merge_three_ways(base, base, made) == (made, [])
    assert merge_three_ways(base, made, made) == (made, [])


@EXAMPLES
@given(trees.flatmap(lambda base: st.tuples(st.just(base), evolved(base), evolved(base))))
def test_merge_is_what_both_serial_orders_leave_or_a_conflict(
    three: tuple[Struct, Struct, Struct],
) -> None:
    base, ours, theirs = three
    merged, clashes = merge_three_ways(base, ours, theirs)
    expected = in_both_orders(flat(base), flat(ours), flat(theirs))

    if clashes:
        assert expected is None, (expected, clashes)
    else:
        assert flat(merged) == expected
        assert is_below(ours, merged)
        assert is_below(theirs, merged)
        other, none = merge_three_ways(base, theirs, ours)
        assert (as_set(other), none) == (as_set(merged), [])


@EXAMPLES
@given(trees.flatmap(lambda base: st.tuples(st.just(base), trees, trees)))
def test_merge_of_anything_at_all_is_never_less_than_a_serial_order(
    three: tuple[Struct, Struct, Struct],
) -> None:
    base, ours, theirs = three
    merged, clashes = merge_three_ways(base, ours, theirs)

    if not clashes:
        assert flat(merged) == in_both_orders(flat(base), flat(ours), flat(theirs))


@EXAMPLES
@given(trees)
def test_tree_that_is_spelled_in_avro_parses_as_itself(tree: Struct) -> None:
    spelled = [field_to_avro(field, parent="n.r") for field in tree.fields]
    avro: dict[str, Any] = {"type": "record", "name": "r", "namespace": "n", "fields": spelled}

    assert parse_record(json.loads(json.dumps(avro))) == tree
