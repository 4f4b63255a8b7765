"""One statement carried out: read, checked, computed over the snapshot that its write starts from,
written as one commit.

The write begins first and the rows are looked for then, in the snapshot that it began with. So what
another writer changes in the file groups that are written is a conflict in single-writer and
optimistic mode, from that snapshot on. Non-blocking writers do not look: there the ages of the
groups decide.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from workers.concurrency.outcome import CommitOutcome
from workers.errors import InvalidInput, PlanChanged
from workers.lakehouse import LakehouseTable
from workers.options.write_options import WriteOptions, write_options
from workers.ports import RandomIds
from workers.read.pruning import SlicePruner
from workers.schema.table_schema import TableSchema
from workers.sql.altering import Altering
from workers.sql.conversion import Conversion
from workers.sql.create import column_type, create
from workers.sql.duck import DuckEngine
from workers.sql.engine import Engine, Snapshot
from workers.sql.expressions import SOURCE
from workers.sql.hints import find_conditions, find_hint, find_hint_predicate
from workers.sql.plan import Plan
from workers.sql.plans import Planner
from workers.sql.relations import (
    Tables,
    bound,
    columns_read,
    opened,
    rows_given,
    tables_named,
    tables_read,
    times_read,
)
from workers.sql.statements import (
    Alter,
    Change,
    Create,
    Insert,
    Merge,
    Select,
    Update,
    statement_of,
)
from workers.table.schema_history import load_schema
from workers.table_services.inline import write_with_services
from workers.write.columns import writer_schema
from workers.write.context import WriteContext
from workers.write.request import WriteRequest
from workers.write.retry import with_retries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLANS_MAX = 5
"""Plans of one attempt, whose schema may change until it begins."""
_log = logging.getLogger(__name__)


def run_sql(
    statement: str,
    *,
    tables: Tables | None = None,
    spark: SparkSession | None = None,
    stream: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Any:
    """Carry out one statement: SELECT, CREATE TABLE, ALTER TABLE, INSERT INTO, UPDATE, MERGE INTO
    or DELETE FROM.

    `tables` gives the names that it uses: opened tables or their locations, and for those that are
    only read also Arrow rows. With a session Spark computes and writes, else this process does.
    `stream` and `options` are those of `table.write`. The answer is a CommitOutcome; of CREATE the
    new LakehouseTable; of SELECT an Arrow table, with a session a DataFrame.

    Raises InvalidInput before anything is written for what is not supported or does not fit, with
    everything rolled back for a value that does not; otherwise as `table.write`.
    """
    change = statement_of(statement)
    if isinstance(change, Create):
        return create(change, tables or {})
    if isinstance(change, Select):
        return _selected(change, tables or {}, spark)
    table = opened(change.target.name, tables or {})
    if isinstance(change, Alter):
        return table.alter(*Altering(change, column_type).changes(), options=options)

    def write(own: Mapping[str, str]) -> CommitOutcome:
        with _engine(spark) as engine:
            mark = f"_sluice_{table.table.ports.ids.token()[:12]}"
            typed = write_options(own, table.table.config.get_mode("sql"))
            run = _Run(change, table, tables or {}, engine, typed, stream, mark)
            return run.carry_out()

    return write_with_services(table.table, options or {}, write)


def _selected(select: Select, tables: Tables, spark: SparkSession | None) -> Any:
    """The rows that a query answers, of tables as `table.read` shows them."""
    query, mark = select.query, f"_sluice_{RandomIds().token()[:12]}"
    relations = {name: f"{mark}_{at}" for at, name in enumerate(sorted(tables_read(query)))}
    schemas: dict[str, pa.Schema] = {}
    with _engine(spark) as engine:
        for name, relation in relations.items():
            if (rows := rows_given(name, tables)) is not None:
                schemas[name] = rows.schema
                engine.bind_rows(relation, rows)
                continue
            table = opened(name, tables)
            if (schema := table.schema()) is None:
                raise InvalidInput("the table has no schema yet, so no rows", table=name)
            schemas[name] = schema
            columns = _looked_at([query], name, schema.names)
            engine.bind_table(relation, table, columns, find_hint([query], name, schema))
        return engine.answer(bound(query, relations, engine.dialect, schemas.get))


@contextmanager
def _engine(spark: SparkSession | None) -> Iterator[Engine]:
    engine: Engine
    if spark is None:
        engine = DuckEngine()
    else:
        from workers.spark.statements import SparkEngine

        engine = SparkEngine(spark)
    try:
        yield engine
    finally:
        engine.close()


@dataclass(frozen=True, slots=True)
class _Run:
    change: Change
    table: LakehouseTable
    tables: Tables
    engine: Engine
    options: WriteOptions
    stream: str | None
    mark: str
    """Tells names apart from those of other statements of a session."""

    def carry_out(self) -> CommitOutcome:
        """Plan and write, once more for each conflict that the options allow: a competing writer
        may have added columns.
        """
        return with_retries(self.table.table, self.options, self._attempt)

    def _attempt(self, number: int) -> CommitOutcome:
        for _ in range(_PLANS_MAX - 1):
            try:
                return self._planned_and_written(number)
            except PlanChanged as changed:
                _log.info("statement is replanned: table=%s reason=%s", self.name, changed)
        return self._planned_and_written(number)

    def _planned_and_written(self, number: int) -> CommitOutcome:
        table = self.table.table
        known = load_schema(table)
        if known is None:
            raise InvalidInput("the table has no schema yet; create it with one", table=self.name)
        plan = self._checked(known)
        request = WriteRequest(
            plan.operation,  # type: ignore[arg-type]  # One of two that there are.
            self.stream,
            is_ordered=plan.is_ordered,
            only_updates=_only_updates(self.change),
            takes_along=plan.takes_along,
            needs_rows=plan.needs_rows,
            reads_rows=self.name in self._read,
        ).for_attempt(number)
        schema = plan.conversion(table.config, known.arrow).schema
        expected = writer_schema(table, self.options, request, schema, known)

        def query_of(context: WriteContext) -> tuple[str, Conversion]:
            if context.schema != expected:
                raise PlanChanged(
                    "the table's schema changed while the statement was planned; run it again",
                    table=self.name,
                )
            return self._query(plan, context)

        return self.engine.write(table, schema, request, self.options, query_of)

    @property
    def name(self) -> str:
        return self.change.target.name

    def _checked(self, known: TableSchema) -> Plan:
        """The plan, tried on empty tables: names and types are wrong now, or never."""
        for name in self._read:
            self.engine.bind_empty(self._relations[name], self._schema(name, known))
        columns: Sequence[str] = ()
        if isinstance(self.change, Merge):
            self.engine.define(self._relations[SOURCE], self._text(self.change.source, known))
            columns = self.engine.schema_of(self._text(exp.select("*").from_(SOURCE))).names
        config = self.table.table.config
        required = tuple(one.name for one in known.tree.fields if not one.place.is_nullable)
        planner = Planner(config, known.arrow, self.options, required)
        plan = planner.plan(self.change, columns)
        plan.conversion(config, known.arrow).check(
            self.engine.schema_of(self._text(plan.query, known))
        )
        if plan.source_key:
            self.engine.schema_of(self._text(_doubles(plan)))
        return plan

    def _query(self, plan: Plan, context: WriteContext) -> tuple[str, Conversion]:
        """What is to be computed, over the relations as they are now."""
        for name in self._read:
            if name == self.name:
                self.engine.bind_snapshot(self._relations[name], self._snapshot(plan, context))
            elif (rows := rows_given(name, self.tables)) is not None:
                self.engine.bind_rows(self._relations[name], rows)
            else:
                schema = self._opened(name).schema()
                columns = self._columns(plan, name, schema)
                hint = find_hint(plan.queries, name, schema) if schema is not None else None
                self.engine.bind_table(self._relations[name], self._opened(name), columns, hint)
        if plan.source is not None:
            self.engine.define(self._relations[SOURCE], self._text(plan.source, context.schema))
            self._refuse_doubles(plan)
        conversion = plan.conversion(context.config, context.schema.arrow)
        return self._text(plan.query, context.schema), conversion

    def _snapshot(self, plan: Plan, context: WriteContext) -> Snapshot:
        config = context.config.showing_unmatched
        arrow = context.schema.arrow
        is_read_once = sum(times_read(query, self.name) for query in plan.queries) == 1
        # A subquery that reads the target again may need rows that the condition leaves out.
        conditions = find_conditions(plan.where, arrow) if is_read_once else ()
        pruner = SlicePruner(config, arrow, conditions)
        return Snapshot(
            replace(self.table.table, config=config),
            context.schema,
            tuple(one for one in context.slices.values() if pruner.may_hold(one)),
            self._columns(plan, self.name, arrow),
            is_read_once,
            find_hint_predicate(plan.queries, self.name, arrow),
        )

    def _refuse_doubles(self, plan: Plan) -> None:
        if (double := self.engine.first(self._text(_doubles(plan)))) is not None:
            raise InvalidInput(
                "the source has several rows for one row of the target",
                key=tuple(double.values()),
                table=self.name,
            )

    def _columns(self, plan: Plan, name: str, schema: pa.Schema | None) -> tuple[str, ...] | None:
        assert schema is not None, name
        return _looked_at(plan.queries, name, schema.names)

    def _schema(self, name: str, known: TableSchema) -> pa.Schema:
        if name == self.name:
            return known.arrow
        if (rows := rows_given(name, self.tables)) is not None:
            return rows.schema
        schema = self._opened(name).schema()
        if schema is None:
            raise InvalidInput("the table has no schema yet, so no rows", table=name)
        return schema

    def _opened(self, name: str) -> LakehouseTable:
        return self.table if name == self.name else opened(name, self.tables)

    @property
    def _read(self) -> list[str]:
        """Names of the tables that the statement reads."""
        if isinstance(self.change, Insert):
            return sorted(tables_read(self.change.rows))
        return sorted(tables_named(self.change))

    @property
    def _relations(self) -> dict[str, str]:
        """By what names the engine knows the tables."""
        return {name: f"{self.mark}_{at}" for at, name in enumerate([SOURCE, *self._read])}

    def _text(self, query: exp.Expr, known: TableSchema | None = None) -> str:
        """The query for the engine; `known` is the schema of the target that it reads, if any."""
        if known is None:
            return bound(query, self._relations, self.engine.dialect)
        read = set(self._read)
        return bound(
            query,
            self._relations,
            self.engine.dialect,
            lambda name: self._schema(name, known) if name in read else None,
        )


def _only_updates(change: Change) -> bool:
    """Whether no row comes in that was not there."""
    return isinstance(change, Update) or (isinstance(change, Merge) and change.not_matched is None)


def _looked_at(
    queries: Sequence[exp.Query], name: str, known: Sequence[str]
) -> tuple[str, ...] | None:
    """Columns to read, one at least; None for all."""
    columns = columns_read(queries, name, known)
    return columns or (tuple(known[:1]) if columns is not None else None)


def _doubles(plan: Plan) -> exp.Query:
    """Keys that several rows of the source have."""
    keys = [one.copy() for one in plan.source_key]
    are_there = [exp.Not(this=exp.Is(this=one.copy(), expression=exp.null())) for one in keys]
    return (
        exp.select(*keys)
        .from_(exp.alias_(exp.to_table(SOURCE), plan.source_alias, table=True))
        .where(*are_there)
        .group_by(*(one.copy() for one in keys))
        .having(
            exp.GT(this=exp.Count(this=exp.Literal.number(1)), expression=exp.Literal.number(1))
        )
        .limit(1)
    )
