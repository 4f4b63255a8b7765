"""The resolution of concurrent schema changes: named strategies, called under the table lock.

A strategy is never loaded by a class name from a configuration: options are untrusted text. The
process that writes must have registered the name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from workers.errors import InvalidInput
from workers.files.avro_schema import Struct
from workers.schema.built_in_strategies import evolvability, simple
from workers.schema.table_schema import TableSchema
from workers.schema.verdict import SchemaConflict, SchemaQuestion, SchemaVerdict
from workers.schema.wider_types import is_evolution

SIMPLE = "simple"
EVOLVABILITY = "evolvability"
STRATEGY_KEY = "hoodie.write.concurrency.schema.conflict.resolution.strategy"

SchemaStrategy: TypeAlias = Callable[[SchemaQuestion], SchemaVerdict | SchemaConflict]
"""Answers with `question.accept(schema)` or `question.reject(reason)`. It is asked only when a
commit with a schema came in between, with the table lock held: no storage, no waiting.
"""

_built_in: dict[str, SchemaStrategy] = {SIMPLE: simple, EVOLVABILITY: evolvability}
_registered: dict[str, SchemaStrategy] = {}


def register_schema_strategy(name: str, strategy: SchemaStrategy) -> None:
    """Register a strategy under a name. Registering the same function again is allowed. Raises
    InvalidInput for a name that is in use.
    """
    if not name or not callable(strategy):
        raise InvalidInput("a strategy has a name and is callable", name=name, strategy=strategy)
    registered = _built_in.get(name) or _registered.setdefault(name, strategy)
    if registered is not strategy:
        raise InvalidInput("another strategy has this name already", name=name)


def check_strategy(name: str) -> None:
    """Check that this process knows the strategy. Raises InvalidInput with those it knows."""
    if name not in _built_in and name not in _registered:
        raise InvalidInput(
            "schema strategy is not registered in this process; "
            "call register_schema_strategy first, or take one of those it knows",
            **{STRATEGY_KEY: name},
            known=sorted({*_built_in, *_registered}),
        )


def run_strategy(name: str, question: SchemaQuestion) -> SchemaVerdict | SchemaConflict:
    """Return the verdict of the strategy with this name. Raises InvalidInput for an unknown name,
    and for a verdict that would lose data.
    """
    check_strategy(name)
    if name in _built_in:
        return _built_in[name](question)
    answer = _registered[name](question)
    if isinstance(answer, SchemaVerdict):
        _check_reads(answer.schema, question)
    return answer


def _check_reads(schema: TableSchema | None, question: SchemaQuestion) -> None:
    """Check that the table's files and this writer's are readable under the schema of a registered
    strategy, except for dropped columns without values here.
    """
    now, writer, written = question.at_validation, question.writer, question.written
    dropped_by_us = set(writer.dropped) if written is None else set()
    dropped_by_them = set(now.dropped) - {name.lower() for name in written or ()}
    files = {"table": _without(now, dropped_by_us), "writer": _without(writer, dropped_by_them)}
    unread = [
        whose
        for whose, tree in files.items()
        if schema is None or not is_evolution(tree, schema.tree)
    ]
    if unread:
        raise InvalidInput(
            "schema strategy answered a schema under which files do not read",
            strategy=question.strategy,
            files_of=unread,
        )


def _without(schema: TableSchema, names: set[str]) -> Struct:
    fields = tuple(field for field in schema.tree.fields if field.name.lower() not in names)
    return Struct(fields, schema.tree.is_error)
