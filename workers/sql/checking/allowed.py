"""What a statement may be made of: parts, functions and types. Whatever is not here is refused,
also what a later release of the parser knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

_Kinds = frozenset[type[exp.Expr]]


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


QUERIES: Final[Mapping[type[exp.Expr], frozenset[str]]] = {
    exp.Select: _words(
        "with_ expressions distinct from_ joins where group having order limit offset windows"
    ),
    exp.Union: _words("with_ this expression distinct by_name order limit offset"),
    exp.Except: _words("with_ this expression distinct order limit offset"),
    exp.Intersect: _words("with_ this expression distinct order limit offset"),
    exp.Subquery: _words("this alias"),
    exp.With: _words("expressions recursive"),
    exp.CTE: _words("this alias"),
    exp.Table: _words("this db alias"),
    exp.TableAlias: _words("this columns"),
    exp.From: _words("this"),
    exp.Join: _words("this on using side kind method"),
    exp.Where: _words("this"),
    exp.Group: _words("expressions rollup cube grouping_sets"),
    exp.Rollup: _words("expressions"),
    exp.Cube: _words("expressions"),
    exp.GroupingSets: _words("expressions"),
    exp.Having: _words("this"),
    exp.Order: _words("this expressions"),
    exp.Ordered: _words("this desc nulls_first"),
    exp.Limit: _words("expression"),
    exp.Offset: _words("expression"),
    exp.Distinct: _words("expressions"),
    exp.Star: _words("except_"),
    exp.Window: _words("this partition_by order spec alias over"),
    exp.WindowSpec: _words("kind start start_side end end_side"),
}
"""Clauses, with the parts that each may have."""

OPERATORS: Final[_Kinds] = frozenset(
    {
        exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Alias, exp.Paren,
        exp.Tuple, exp.Dot, exp.Var, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE,
        exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Like,
        exp.ILike, exp.RegexpLike, exp.Escape, exp.Exists, exp.Neg, exp.Add, exp.Sub, exp.Mul,
        exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor,
        exp.BitwiseNot, exp.Case, exp.If, exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam,
        exp.ColumnDef, exp.Interval, exp.Bracket, exp.Filter, exp.IgnoreNulls, exp.RespectNulls,
        exp.PropertyEQ,
    }
)  # fmt: skip

FUNCTIONS: Final[_Kinds] = frozenset(
    {
        # Of a group, and of a window.
        exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Stddev, exp.StddevSamp,
        exp.StddevPop, exp.Variance, exp.VariancePop, exp.Median, exp.ApproxDistinct, exp.Quantile,
        exp.ArrayAgg, exp.ArrayUniqueAgg, exp.First, exp.Last, exp.AnyValue, exp.LogicalAnd,
        exp.LogicalOr, exp.Corr, exp.ArgMax, exp.ArgMin, exp.Grouping, exp.RowNumber, exp.Rank,
        exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.Lag, exp.Lead,
        exp.FirstValue, exp.LastValue, exp.NthValue,
        # Of numbers.
        exp.Abs, exp.Round, exp.Ceil, exp.Floor, exp.Sqrt, exp.Pow, exp.Exp, exp.Ln, exp.Log,
        exp.Sign, exp.Greatest, exp.Least, exp.Sin, exp.Cos, exp.Tan, exp.Pi, exp.Degrees,
        exp.Radians,
        # Of texts.
        exp.Upper, exp.Lower, exp.Trim, exp.Length, exp.Substring, exp.Left, exp.Right,
        exp.Concat, exp.ConcatWs, exp.Replace, exp.Repeat, exp.Reverse, exp.Pad, exp.StrPosition,
        exp.RegexpSplit, exp.SplitPart, exp.RegexpReplace, exp.RegexpExtract, exp.StartsWith,
        exp.EndsWith, exp.Contains, exp.Translate, exp.Ascii, exp.Chr, exp.MD5, exp.SHA, exp.SHA2,
        exp.Hex, exp.Levenshtein,
        # Of what may be missing.
        exp.Coalesce, exp.Nullif, exp.Nvl2,
        # Of days and times.
        exp.CurrentDate, exp.CurrentTimestamp, exp.Year, exp.Month, exp.Day, exp.Hour, exp.Minute,
        exp.Second, exp.Quarter, exp.WeekOfYear, exp.DayOfWeek, exp.DayOfYear, exp.TsOrDsToDate,
        exp.TsOrDsAdd, exp.DateAdd, exp.DateSub, exp.DateDiff, exp.DateTrunc, exp.TimestampTrunc,
        exp.TimestampDiff, exp.AddMonths, exp.LastDay, exp.TimeToStr,
        exp.TimeStrToTime, exp.StrToTime, exp.StrToUnix, exp.UnixToStr, exp.Extract,
        # Of arrays, maps and structs.
        exp.Array, exp.ArraySize, exp.ArrayContains, exp.ArrayDistinct, exp.ArrayToString,
        exp.ArrayMax, exp.ArrayMin, exp.ArraySort, exp.Flatten, exp.Struct, exp.MapKeys,
        exp.GenerateSeries,
    }
)  # fmt: skip
"""None of them reads a file, a setting, a name of a process or of a user, or calls code that is
named by a text.
"""

_T = exp.DType
TYPES: Final = frozenset(
    {
        _T.BOOLEAN, _T.TINYINT, _T.SMALLINT, _T.INT, _T.BIGINT, _T.FLOAT, _T.DOUBLE, _T.DECIMAL,
        _T.VARCHAR, _T.CHAR, _T.TEXT, _T.BINARY, _T.VARBINARY, _T.DATE, _T.TIMESTAMP,
        _T.TIMESTAMPTZ, _T.TIMESTAMPLTZ, _T.TIMESTAMPNTZ, _T.INTERVAL, _T.ARRAY, _T.LIST, _T.MAP,
        _T.STRUCT, _T.DATETIME,
    }
)  # fmt: skip

UNITS: Final = _words(
    "YEAR YEARS QUARTER QUARTERS MONTH MONTHS WEEK WEEKS DAY DAYS HOUR HOURS MINUTE MINUTES "
    "SECOND SECONDS MILLISECOND MILLISECONDS MICROSECOND MICROSECONDS DAYOFWEEK DAYOFYEAR DOW "
    "DOY EPOCH YYYY YY MON MM DD"
)
"""What a bare word may be: a unit of time."""
