"""Mutants of a module: one small change each, by the operators of Cosmic Ray and one of our own.

A mutant is named by its function, its line's text and its operator, not by a line's number, so that
its name holds while other code changes. Annotations, decorators, logging, stop points and numbers
beyond two are left alone: they are no rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.operators.provider import OperatorProvider
from parso.tree import NodeOrLeaf

from tests.mutation.targets import TARGETS

REPOSITORY = Path(__file__).resolve().parents[2]
COMPARISONS = (
    *("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt"),
    *("Is_IsNot", "IsNot_Is"),
)
BINARY = ("Add_Sub", "Sub_Add", "BitAnd_BitOr", "BitOr_BitAnd")
OF_COSMIC_RAY = (
    *(f"ReplaceComparisonOperator_{pair}" for pair in COMPARISONS),
    *(f"ReplaceBinaryOperator_{pair}" for pair in BINARY),
    "ReplaceUnaryOperator_Delete_Not",
    "AddNot",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ExceptionReplacer",
    "NumberReplacer",
    "ZeroIterationForLoop",
)
SMALL_NUMBERS = ("0", "1", "2")
NO_RULES = ("_log.", "stop_points.reach(")
"""Calls that nobody misses but who reads logs, or tests that stop there."""


class SkipStatement(Operator):  # type: ignore[misc]
    """Leaves out a call whose answer nobody takes, or a `raise`. Cosmic Ray has nothing like it."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[tuple[object, object]]:
        if node.type == "simple_stmt" and _may_be_skipped(node.children[0]):
            yield node.start_pos, node.end_pos

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        skipped = node.children[0]
        prefix = skipped.get_first_leaf().prefix
        node.children[0] = parso.parse(prefix + "pass")
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return Example("confirm()", "pass"), Example("raise OSError", "pass")


@dataclass(frozen=True, slots=True)
class Mutant:
    module: str
    function: str
    line: str
    """What the line says, without its indent."""
    operator: str
    nth: int
    """Of those with the same four words above, from 1."""
    occurrence: int
    """Of the operator in its module, from 0: how Cosmic Ray counts."""
    body: range | None = field(compare=False)
    """Lines of the function in which the change stands; None outside of every function's body."""

    @property
    def name(self) -> str:
        number = f" #{self.nth}" if self.nth > 1 else ""
        return f"{self.module} {self.function}: `{self.line}` {self.operator}{number}"

    def source(self) -> str:
        """The module with this change."""
        mutated = mutate_code(_text(self.module), operators()[self.operator], self.occurrence)
        assert mutated is not None, self
        return str(mutated)


@cache
def all_mutants() -> list[Mutant]:
    """Of every target, in the order of modules and lines."""
    return [
        mutant for target in TARGETS for module in target.modules for mutant in _mutants_of(module)
    ]


@cache
def operators() -> dict[str, Operator]:
    provided = OperatorProvider()
    named = {name: provided[name]() for name in OF_COSMIC_RAY}
    return {_short(name): operator for name, operator in named.items()} | {
        "SkipStatement": SkipStatement()
    }


def _mutants_of(module: str) -> Iterator[Mutant]:
    text = _text(module)
    lines = text.splitlines()
    occurrences = Counter[str]()
    alike = Counter[tuple[str, str, str]]()
    for node in ast_nodes(parso.parse(text)):
        for name, operator in operators().items():
            for start, _ in operator.mutation_positions(node):
                occurrence = occurrences[name]
                occurrences[name] += 1
                if _is_no_rule(node):
                    continue
                function, line = _function(node), lines[start[0] - 1].strip()
                alike[function, line, name] += 1
                nth = alike[function, line, name]
                yield Mutant(module, function, line, name, nth, occurrence, _body(node))


def _may_be_skipped(statement: NodeOrLeaf) -> bool:
    if statement.type == "raise_stmt":
        return True
    if statement.type != "atom_expr" or statement.get_code(False).startswith(NO_RULES):
        return False
    last = statement.children[-1]
    return bool(last.type == "trailer" and last.children[0].value == "(")


def _is_no_rule(node: NodeOrLeaf) -> bool:
    if node.type == "number" and node.value not in SMALL_NUMBERS:
        return True
    inner, outer = node, node.parent
    while outer is not None:
        if inner.type == "decorator":
            return True
        if outer.type == "tfpdef" and inner is outer.children[-1]:
            return True
        if outer.type == "annassign" and inner is outer.children[1]:
            return True
        if outer.type == "funcdef" and inner is outer.annotation:
            return True
        inner, outer = outer, outer.parent
    return False


def _function(node: NodeOrLeaf) -> str:
    names = list[str]()
    outer = node.parent
    while outer is not None:
        if outer.type in ("funcdef", "classdef"):
            names.append(outer.name.value)
        outer = outer.parent
    return ".".join(reversed(names)) or "module"


def _body(node: NodeOrLeaf) -> range | None:
    inner, outer = node, node.parent
    while outer is not None:
        if outer.type == "funcdef" and inner is outer.children[-1]:
            first = next(child for child in inner.children if child.type != "newline")
            return range(first.start_pos[0], inner.end_pos[0])
        inner, outer = outer, outer.parent
    return None


def _short(name: str) -> str:
    return name.rpartition("Operator_")[2].removeprefix("Replace")


@cache
def _text(module: str) -> str:
    return (REPOSITORY / module).read_text(encoding="utf-8")
