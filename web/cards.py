"""Tables that become cards on a narrow screen: each cell is given the name of its column.

A head that is not shown any more cannot name what stands below it, and style sheets cannot carry
words from one element to another. So the names are put into the markup on its way out, for pages
and fragments alike, without a script and whoever wrote the table: `data-cards` on the table and
`data-label` on its cells. Tables of class `matrix`, `heat-table`, `log` or `tree` stay tables, as
do those whose head has several lines, and lines whose cells span columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import unescape

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.html import escape

_HEAD_CELL = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_CELL = re.compile(r"<t[dh]\b")
_MARKUP = re.compile(r"<[^>]*>")
_NO_WORDS = re.compile(r"<(kbd|svg)\b.*?</\1>", re.DOTALL)
_STAYS = re.compile(r"\b(?:matrix|heat-table|log|tree)\b")
_NONE = re.compile(r"(<td\b[^>]*)>(?=\s*[\u2013\u2014]\s*</td>)")
"""A cell without a value; a card leaves it out."""
_END = "</table>"


def with_labels(html: str) -> str:
    """The same markup, whose cells say the names of their columns. Of a table within another only
    the inner one does.
    """
    pieces: list[str] = []
    at = 0
    while (end := html.find(_END, at)) >= 0:
        begin = html.rfind("<table", at, end)
        if begin >= 0:
            pieces += (html[at:begin], _labelled(html[begin:end]), _END)
        else:
            pieces.append(html[at : end + len(_END)])
        at = end + len(_END)
    pieces.append(html[at:])
    return "".join(pieces)


def _labelled(table: str) -> str:
    """A table's markup up to its end tag."""
    tag_end = table.index(">")
    head, has_head, body = table.partition("</thead>")
    if not has_head or head.count("<tr") != 1 or "colspan" in head:
        return table
    if _STAYS.search(table, 0, tag_end):
        return table
    names = [_attribute(words) for words in _HEAD_CELL.findall(head)]
    lines = body.split("<tr")
    lines[1:] = [_line(line, names) for line in lines[1:]]
    return f"{table[:tag_end]} data-cards{head[tag_end:]}</thead>{'<tr'.join(lines)}"


def _line(line: str, names: Sequence[str]) -> str:
    """A line's own head is its card's title, and needs no name."""
    if "colspan" in line:
        return line
    attributes = iter(names)

    def named(cell: re.Match[str]) -> str:
        attribute = next(attributes, "")
        return cell.group() if cell.group() == "<th" else cell.group() + attribute

    return _NONE.sub(r"\1 data-none>", _CELL.sub(named, line))


def _attribute(head: str) -> str:
    words = " ".join(unescape(_MARKUP.sub(" ", _NO_WORDS.sub(" ", head))).split())
    return f' data-label="{escape(words)}"' if words else ""


class CardTablesMiddleware:
    """Names the cells of every page and fragment that goes out."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        is_html = response.headers.get("Content-Type", "").startswith("text/html")
        if is_html and isinstance(response, HttpResponse) and b"<thead" in response.content:
            response.content = with_labels(response.content.decode()).encode()
        return response
