"""Expressions that plans are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from workers.sql.changes import ComparedColumns
from workers.sql.statements import Merge, Target

SOURCE = "_sluice_source"


def table_of(target: Target) -> exp.Expr:
    """Its whole name is one part: it is looked up, not parsed again."""
    table = exp.Table(this=exp.to_identifier(target.name, quoted=True))
    return exp.alias_(table, exp.to_identifier(target.alias, quoted=True), table=True)


def column(name: str, target: Target) -> exp.Expr:
    """The column of the target, quoted and qualified by its alias."""
    return exp.column(name, table=target.alias, quoted=True)


def current(compared: Iterable[ComparedColumns], target: Target) -> list[exp.Expr]:
    """What the target holds now of the columns that are compared."""
    return [column(name, target) for part in compared for name in part.columns]


def numbered(values: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Under names that no column has: what a name means may depend on it."""
    return [exp.alias_(value.copy(), f"_sluice_{at}") for at, value in enumerate(values)]


def is_same(ours: exp.Expr, theirs: exp.Expr) -> bool:
    """Whether two expressions say the same; columns do whatever their quotes."""
    if isinstance(ours, exp.Column) and isinstance(theirs, exp.Column):
        return (ours.name, ours.table) == (theirs.name, theirs.table)
    return ours == theirs


def on_clause(change: Merge) -> exp.Expr:
    """The MERGE's ON again, as one condition over target and source."""
    return exp.and_(
        *(
            exp.EQ(this=column(name, change.target), expression=theirs.copy())
            for name, theirs in change.on.items()
        )
    )


def taken_rows(change: Merge, is_there: exp.Expr) -> exp.Expr:
    """The rows that one of the clauses takes."""
    taken = []
    for clause, when in (
        (change.matched, is_there),
        (change.removed, is_there),
        (change.not_matched, exp.not_(is_there.copy())),
    ):
        if clause is not None:
            taken.append(exp.and_(when.copy(), *filter(None, [clause.condition])))
    return exp.or_(*taken)


def removed_rows(change: Merge, is_there: exp.Expr) -> exp.Expr | None:
    """Which rows a clause deletes; None without one. Of several that match the first counts, and
    a condition that is null does not hold.
    """
    removed, matched = change.removed, change.matched
    if removed is None:
        return None
    conditions = [is_there.copy(), *filter(None, [removed.condition])]
    if matched is not None and not removed.comes_first:
        conditions.append(exp.not_(_holds(matched.condition)))
    return _holds(exp.and_(*conditions))


def merged_value(
    removed: tuple[exp.Expr, exp.Expr] | None, there: tuple[exp.Expr, exp.Expr], new: exp.Expr
) -> exp.Expr:
    """The value of one column by which clause takes the row, each with its condition."""
    case = exp.case()
    for condition, value in filter(None, (removed, there)):
        case = case.when(condition.copy(), value)
    return case.else_(new)


def _holds(condition: exp.Expr | None) -> exp.Expr:
    if condition is None:
        return exp.true()
    return exp.Coalesce(this=exp.paren(condition.copy()), expressions=[exp.false()])
