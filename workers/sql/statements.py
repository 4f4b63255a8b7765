"""The text of a statement, taken apart. Whatever it says that is not understood is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from workers.errors import InvalidInput

DIALECT: Final = "spark"
KNOWN: Final = "SELECT, CREATE TABLE, ALTER TABLE, INSERT INTO, UPDATE, MERGE INTO, DELETE FROM"
_LENGTH_MAX = 1_000_000
_AGAIN = "say it in a statement of its own, or compute it beforehand"


@dataclass(frozen=True, slots=True)
class Target:
    """The table that a statement changes."""

    name: str
    """As written; parts with dots between them."""
    alias: str
    """What its columns are qualified by."""


@dataclass(frozen=True, slots=True)
class Create:
    """CREATE TABLE, whose clauses `create` reads."""

    target: Target
    node: exp.Create

    @property
    def location(self) -> str:
        """Empty without a LOCATION."""
        clause = self.node.find(exp.LocationProperty)
        return clause.this.name if clause is not None else ""


@dataclass(frozen=True, slots=True)
class Alter:
    """ALTER TABLE: its actions in their order."""

    target: Target
    actions: tuple[exp.Expr, ...]


@dataclass(frozen=True, slots=True)
class Select:
    """A query alone, which changes nothing."""

    query: exp.Query


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO: VALUES come as a query too."""

    target: Target
    columns: tuple[str, ...] | None
    """None: all of the table's, in its order."""
    rows: exp.Query
    is_by_name: bool


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE: what each column is set to, in all rows without a WHERE."""

    target: Target
    sets: Mapping[str, exp.Expr]
    where: exp.Expr | None


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE FROM, of all rows without a WHERE."""

    target: Target
    where: exp.Expr | None


@dataclass(frozen=True, slots=True)
class Matched:
    """WHEN MATCHED THEN UPDATE."""

    sets: Mapping[str, exp.Expr] | None
    """None: every column that the source has."""
    condition: exp.Expr | None


@dataclass(frozen=True, slots=True)
class NotMatched:
    """WHEN NOT MATCHED THEN INSERT."""

    values: Mapping[str, exp.Expr] | None
    """None: every column that the source has."""
    condition: exp.Expr | None


@dataclass(frozen=True, slots=True)
class Removed:
    """WHEN MATCHED THEN DELETE."""

    condition: exp.Expr | None
    comes_first: bool
    """Before the clause that updates: of several that match the first one counts."""


@dataclass(frozen=True, slots=True)
class Merge:
    """MERGE INTO, with at most one clause of each kind."""

    target: Target
    source: exp.Query
    source_alias: str
    on: Mapping[str, exp.Expr]
    """Column of the target -> what it equals in the source."""
    matched: Matched | None
    not_matched: NotMatched | None
    removed: Removed | None = None


Change: TypeAlias = Insert | Update | Merge | Delete
Statement: TypeAlias = Create | Alter | Select | Change


def statement_of(text: str) -> Statement:
    """The statement that a text says. Raises InvalidInput naming what cannot be read, or is not
    supported.
    """
    node = _parsed(text)
    match node:
        case exp.Create():
            return _create(node)
        case exp.Alter():
            return _alter(node)
        case exp.Insert():
            return _insert(node)
        case exp.Update():
            return _update(node)
        case exp.Merge():
            return _merge(node)
        case exp.Delete():
            return _delete(node)
        case exp.Query():
            _refuse_locks(node)
            return Select(node)
        case _:
            kind = node.this if isinstance(node, exp.Command) else node.key.upper()
            raise InvalidInput("the statement is not supported", statement=kind, known=KNOWN)


def parts_of(change: Change) -> list[exp.Expr]:
    """All expressions and queries that are computed for it."""
    match change:
        case Insert(rows=rows):
            return [rows]
        case Update(sets=sets, where=where):
            return [*sets.values(), *filter(None, [where])]
        case Delete(where=where):
            return [] if where is None else [where]
        case Merge(source=source, matched=matched, not_matched=not_matched, removed=removed):
            parts: list[exp.Expr] = [source]
            if removed is not None:
                parts += filter(None, [removed.condition])
            if matched is not None:
                parts += [*(matched.sets or {}).values(), *filter(None, [matched.condition])]
            if not_matched is not None:
                values = not_matched.values or {}
                parts += [*values.values(), *filter(None, [not_matched.condition])]
            return parts


def condition_text(where: exp.Expr) -> str:
    """In the plain spelling of a table's own predicates: columns go by their names alone."""
    plain = where.copy()
    for column in plain.find_all(exp.Column):
        column.set("table", None)
    return plain.sql()


def table_name(table: exp.Table) -> str:
    """The table's name as it is written, its parts joined by dots. Raises InvalidInput for what is
    no table's name.
    """
    if not all(isinstance(part, exp.Identifier) for part in table.parts):
        raise InvalidInput("only tables are read from, no functions", given=_text(table))
    return ".".join(part.name for part in table.parts)


def _parsed(text: str) -> exp.Expr:
    if len(text) > _LENGTH_MAX:
        raise InvalidInput("the statement is too long", characters_max=_LENGTH_MAX)
    try:
        nodes = [one for one in sqlglot.parse(text, read=DIALECT) if one is not None]
    except SqlglotError as error:
        first, *_ = str(error).splitlines()
        raise InvalidInput("the statement cannot be read", why=first) from error
    except RecursionError as error:
        raise InvalidInput("the statement is nested too deeply") from error
    if len(nodes) != 1:
        raise InvalidInput("one statement at a time", given=len(nodes))
    return nodes[0]


def _create(node: exp.Create) -> Create:
    if node.kind != "TABLE":
        raise InvalidInput("only tables are created", given=node.kind)
    if not isinstance(node.this, exp.Schema):
        raise InvalidInput("a table is created with its columns and their types")
    _only(node, "CREATE", "this", "kind", "exists", "properties")
    return Create(_target(node.this.this), node)


def _alter(node: exp.Alter) -> Alter:
    if node.args.get("kind") != "TABLE":
        raise InvalidInput("only tables are altered", given=node.args.get("kind"))
    _only(node, "ALTER", "this", "kind", "actions")
    return Alter(_target(node.this), tuple(node.args["actions"]))


def _insert(node: exp.Insert) -> Insert:
    _only(node, "INSERT", "this", "expression", "by_name", "with_")
    columns = None
    where = node.this
    if isinstance(where, exp.Schema):
        columns = tuple(_column_name(one) for one in where.expressions)
        where = where.this
    rows = node.expression
    if isinstance(rows, exp.Values):
        rows = exp.select("*").from_(rows)
    if not isinstance(rows, exp.Query):
        raise InvalidInput("INSERT takes VALUES or a query", given=_text(rows))
    if (common := node.args.get("with_")) is not None:
        if rows.args.get("with_") is not None:
            raise InvalidInput("say WITH once")
        rows = rows.copy()
        rows.set("with_", common.copy())
    if columns is not None and node.args.get("by_name"):
        raise InvalidInput("INSERT names its columns either in a list or BY NAME")
    _refuse_twice(columns or ())
    return Insert(_target(where), columns, rows, bool(node.args.get("by_name")))


def _update(node: exp.Update) -> Update:
    _only(node, "UPDATE", "this", "expressions", "where")
    where = node.args.get("where")
    target = _target(node.this)
    return Update(target, _sets(node.expressions, target), where.this if where else None)


def _delete(node: exp.Delete) -> Delete:
    _only(node, "DELETE", "this", "where")
    where = node.args.get("where")
    return Delete(_target(node.this), where.this if where else None)


def _merge(node: exp.Merge) -> Merge:
    _only(node, "MERGE", "this", "using", "on", "whens")
    target = _target(node.this)
    source, alias = _source(node.args["using"])
    if alias == target.alias:
        raise InvalidInput("target and source need names of their own", name=alias)
    matched: Matched | None = None
    not_matched: NotMatched | None = None
    removed: Removed | None = None
    for when in node.args["whens"].expressions:
        _only(when, "WHEN", "matched", "condition", "then")
        then, condition = when.args["then"], when.args.get("condition")
        match then:
            case exp.Var() if when.args["matched"] and removed is None and _is_delete(then):
                removed = Removed(condition, comes_first=matched is None)
            case exp.Update() if when.args["matched"] and matched is None:
                sets = None if _is_star(then.expressions) else _sets(then.expressions, target)
                matched = Matched(sets, condition)
            case exp.Insert() if not when.args["matched"] and not_matched is None:
                not_matched = NotMatched(_inserted(then), condition)
            case _:
                raise InvalidInput(
                    "MERGE takes one WHEN MATCHED THEN UPDATE, one WHEN MATCHED THEN DELETE and "
                    "one WHEN NOT MATCHED THEN INSERT; " + _AGAIN,
                    given=_text(when),
                )
    on = _equalities(node.args["on"], target)
    return Merge(target, source, alias, on, matched, not_matched, removed)


def _is_delete(then: exp.Var) -> bool:
    return then.name.upper() == "DELETE"


def _source(using: exp.Expr) -> tuple[exp.Query, str]:
    alias = using.alias
    if isinstance(using, exp.Table):
        name = table_name(using)
        return exp.select("*").from_(using.copy()), alias or name.rpartition(".")[2]
    if isinstance(using, exp.Subquery) and alias and not using.alias_column_names:
        return using.this.copy(), alias
    raise InvalidInput("the source is a table, or a query in parentheses with a name")


def _equalities(on: exp.Expr, target: Target) -> dict[str, exp.Expr]:
    on_source: dict[str, exp.Expr] = {}
    condition = on.unnest()
    for equality in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        equal = equality.unnest()
        sides = [equal.this, equal.expression] if isinstance(equal, exp.EQ) else []
        ours = [side for side in sides if _is_of(side, target)]
        if len(ours) != 1:
            raise InvalidInput(
                f"ON says which key is which, as in {target.alias}.id = s.id, joined by AND",
                given=_text(equality),
            )
        theirs = sides[1] if sides[0] is ours[0] else sides[0]
        if ours[0].name in on_source:
            raise InvalidInput("ON names a column twice", column=ours[0].name)
        on_source[ours[0].name] = theirs
    return on_source


def _is_of(side: exp.Expr, target: Target) -> bool:
    return isinstance(side, exp.Column) and side.table == target.alias


def _inserted(then: exp.Insert) -> dict[str, exp.Expr] | None:
    _only(then, "INSERT", "this", "expression")
    if isinstance(then.this, exp.Star):
        return None
    if not isinstance(then.this, exp.Tuple) or not isinstance(then.expression, exp.Tuple):
        raise InvalidInput("INSERT in a MERGE is INSERT (columns) VALUES (values)")
    names = [_column_name(one) for one in then.this.expressions]
    values = then.expression.expressions
    if len(names) != len(values):
        raise InvalidInput("INSERT has more columns than values, or fewer", columns=names)
    _refuse_twice(names)
    return dict(zip(names, values, strict=True))


def _sets(listed: list[exp.Expr], target: Target) -> dict[str, exp.Expr]:
    names = []
    for assignment in listed:
        if not isinstance(assignment, exp.EQ) or not isinstance(assignment.this, exp.Column):
            raise InvalidInput("SET is a list of column = expression", given=_text(assignment))
        if assignment.this.table not in ("", target.alias):
            raise InvalidInput("SET names columns of the target", given=_text(assignment.this))
        names.append(assignment.this.name)
    _refuse_twice(names)
    return dict(zip(names, (one.expression for one in listed), strict=True))


def _is_star(listed: list[exp.Expr]) -> bool:
    return len(listed) == 1 and isinstance(listed[0], exp.Star)


def _target(table: exp.Expr) -> Target:
    if not isinstance(table, exp.Table):
        raise InvalidInput("the statement names no table", given=_text(table))
    _only(table, "a target", "this", "db", "catalog", "alias")
    name = table_name(table)
    return Target(name, table.alias or name.rpartition(".")[2])


def _column_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Identifier | exp.Column):
        return node.name
    raise InvalidInput("a column was expected", given=_text(node))


def _refuse_locks(query: exp.Query) -> None:
    if query.find(exp.Lock):
        raise InvalidInput("a query locks no rows", part="FOR UPDATE or FOR SHARE", known=KNOWN)


def _refuse_twice(names: list[str] | tuple[str, ...]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidInput("a column is named twice", columns=twice)


def _only(node: exp.Expr, what: str, *known: str) -> None:
    """Raises InvalidInput for a clause that is none of the `known`."""
    extra = [key for key, value in node.args.items() if value and key not in known]
    if extra:
        raise InvalidInput(
            f"this part of {what} is not supported",
            part=[_text(node.args[key]) or key for key in extra],
            known=KNOWN,
        )


def _text(node: object) -> str:
    return node.sql(dialect=DIALECT) if isinstance(node, exp.Expr) else ""
