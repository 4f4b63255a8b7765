"""The request of `table.top_n(...)`: the n first rows of each group of rows. Values only;
`workers.read.top_n_query` executes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from workers.errors import InvalidInput

TOP_N_KEY: Final = "hoodie.multistream.topn"
N_MAX: Final = 1_000_000
_TERM = re.compile(r"\s*(?:`([^`]+)`|([A-Za-z_]\w*))(?:\s+(asc|desc))?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Term:
    """A column to order by, ascending by default; nulls are last in both directions."""

    column: str
    is_descending: bool = False


@dataclass(frozen=True, slots=True)
class TopN:
    """The `n` first rows of each group of rows with equal `partition_by`, ordered by `order_by`."""

    partition_by: tuple[str, ...]
    """Empty: the n first of the whole table."""
    order_by: tuple[Term, ...]
    n: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The required columns, each once: those of the groups first, then those of the order."""
        return tuple(dict.fromkeys((*self.partition_by, *(term.column for term in self.order_by))))

    def check(self, schema: pa.Schema) -> None:
        """Check the columns against the table's. Raises InvalidInput for columns that do not exist,
        or cannot be compared.
        """
        for name in self.columns:
            if name not in schema.names:
                raise InvalidInput("table has no such column", column=name, known=schema.names)
            if pa.types.is_nested(schema.field(name).type):
                raise InvalidInput("top_n compares plain values", column=name)


def build_top_n(
    properties: str,
    *,
    partition_by: Sequence[str] | None = None,
    order_by: str | None = None,
    n: int | None = None,
) -> TopN:
    """Build the request from the arguments, with the table's `hoodie.multistream.topn` (or empty)
    as default.

    Raises InvalidInput.
    """
    declared = _parse_members(properties) if properties else {}
    arguments = {"partition_by": partition_by, "order_by": order_by, "n": n}
    request = dict(declared) | {key: value for key, value in arguments.items() if value is not None}
    if missing := [key for key in ("order_by", "n") if key not in request]:
        raise InvalidInput(
            f"top_n needs an order and a number, as arguments or in the table's {TOP_N_KEY}",
            missing=missing,
        )
    count, groups = request["n"], request.get("partition_by", ())
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= N_MAX:
        raise InvalidInput("n is a whole number", given=count, least=1, most=N_MAX)
    if isinstance(groups, str) or not all(isinstance(group, str) for group in groups):
        raise InvalidInput("partition_by is a list of column names", given=groups)
    return TopN(tuple(groups), _terms(request["order_by"]), count)


def _parse_members(text: str) -> Mapping[str, Any]:
    try:
        members = json.loads(text)
    except ValueError as error:
        raise InvalidInput("the top n is not JSON", key=TOP_N_KEY, given=text) from error
    if not isinstance(members, dict) or set(members) - {"partition_by", "order_by", "n"}:
        raise InvalidInput(
            "the top n is an object with partition_by, order_by and n", key=TOP_N_KEY, given=text
        )
    return members


def _terms(text: object) -> tuple[Term, ...]:
    parts = text.split(",") if isinstance(text, str) else []
    matches = [_TERM.fullmatch(part) for part in parts]
    if not parts or not all(matches):
        raise InvalidInput("order_by is written `score desc, at`", given=text)
    terms = [
        Term(match[1] or match[2], (match[3] or "").lower() == "desc") for match in matches if match
    ]
    if len({term.column for term in terms}) < len(terms):
        raise InvalidInput("order_by names a column twice", given=text)
    return tuple(terms)
