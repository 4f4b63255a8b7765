"""What apps add to the pages: addresses, parts in the head of a live page, and what else to do
where there is no table. An app says so when it is ready; without it there is nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.urls import URLResolver, include, path
from django.utils.module_loading import import_string

if TYPE_CHECKING:
    from controlplane.tables.models import Table


@dataclass(frozen=True, slots=True)
class HeadPart:
    """Stands beside the title of every live page, and is fetched again when something changes."""

    name: str
    template: str
    style: str
    """Its style sheet, among the static files."""
    refreshed_on: str
    """The kinds of events on which it is fetched again."""
    build: str
    """The dotted name of a function that makes of a table what the template shows. A
    `conflict_hint` in it stands on the page where an admin sees no conflicts.
    """

    def context(self, table: Table) -> Mapping[str, Any]:
        build: Callable[[Table], Mapping[str, Any]] = import_string(self.build)
        return build(table)


_urls: list[str] = []
_head_parts: dict[str, HeadPart] = {}
_first_steps = ["fragments/first_step.html"]


def add_urls(module: str) -> None:
    """The module has `urlpatterns`; it is loaded with the site's own."""
    if module not in _urls:
        _urls.append(module)


def add_head_part(part: HeadPart) -> None:
    _head_parts[part.name] = part


def set_first_step(template: str) -> None:
    """The template says what to do where there is no table yet."""
    _first_steps[:] = [template]


def added_urls() -> list[URLResolver]:
    return [path("", include(module)) for module in _urls]


def head_parts() -> Mapping[str, HeadPart]:
    return _head_parts


def first_step() -> str:
    [template] = _first_steps
    return template
