"""Tags that keep long lists cheap: a branch that is found by its key, and addresses that are made
once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from django import template
from django.template.base import FilterExpression, Node, NodeList, Parser, TextNode, Token
from django.template.context import Context
from django.urls import reverse

register = template.Library()

_ADDRESSES_KEPT: Final = 16_384


class _Case(Node):
    def __init__(self, key: str, nodes: NodeList) -> None:
        self.key, self.nodes = key, nodes

    def render(self, context: Context) -> str:
        return self.nodes.render(context)


class _Switch(Node):
    def __init__(self, key: FilterExpression, cases: dict[str, _Case]) -> None:
        self.key, self.cases = key, cases

    def render(self, context: Context) -> str:
        case = self.cases.get(self.key.resolve(context))
        return case.render(context) if case else ""


@register.tag
def switch(parser: Parser, token: Token) -> _Switch:
    """Render the `case` of this key, found by one look-up however many cases there are."""
    _, key = token.split_contents()
    nodes = parser.parse(("endswitch",))
    parser.delete_first_token()
    cases = {node.key: node for node in nodes if isinstance(node, _Case)}
    left = [node for node in nodes if not isinstance(node, _Case)]
    if any(not isinstance(node, TextNode) or node.s.strip() for node in left):
        raise template.TemplateSyntaxError("a switch must contain only cases")
    return _Switch(parser.compile_filter(key), cases)


@register.tag
def case(parser: Parser, token: Token) -> _Case:
    """A branch of `switch`; its key is a text in quotes."""
    _, key = token.split_contents()
    nodes = parser.parse(("endcase",))
    parser.delete_first_token()
    return _Case(key.strip("\"'"), nodes)


@register.simple_tag
@lru_cache(_ADDRESSES_KEPT)
def table_url(page: str, slug: str) -> str:
    """The address of a page of one table."""
    return reverse(page, args=[slug])
