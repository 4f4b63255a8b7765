"""What apps add to the pages: addresses, parts in the head of a live page, and what else to do
where there is no table. An app says so when it is ready; without it there is nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.urls import URLResolver, include, path
from django.utils.functional import SimpleLazyObject
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


@dataclass(frozen=True, slots=True)
class Strip:
    """Stands above what a page says, wherever its function makes something of the request."""

    template: str
    style: str
    """Its style sheet, among the static files."""
    build: str
    """The dotted name of a function that makes of a request what the template shows as `strip`, or
    None where it does not belong.
    """

    def of(self, request: HttpRequest) -> Any | None:
        build: Callable[[HttpRequest], Any | None] = import_string(self.build)
        return build(request)


_SEEN = "_sluice_seen_tables"
_urls: list[str] = []
_strips: list[Strip] = []
_head_parts: dict[str, HeadPart] = {}
_first_steps = ["fragments/first_step.html"]


def note_seen_tables(request: HttpRequest, slugs: frozenset[str]) -> None:
    """A page that has looked up all tables its reader sees spares a strip the same question."""
    vars(request)[_SEEN] = slugs


def may_be_seen(request: HttpRequest, slug: str) -> bool:
    """False where the page knows that its reader sees no such table; else the strip has to ask."""
    slugs = vars(request).get(_SEEN)
    return slugs is None or slug in slugs


def add_urls(module: str) -> None:
    """The module has `urlpatterns`; it is loaded with the site's own."""
    if module not in _urls:
        _urls.append(module)


def add_head_part(part: HeadPart) -> None:
    _head_parts[part.name] = part


def add_strip(strip: Strip) -> None:
    if strip not in _strips:
        _strips.append(strip)


def strips(request: HttpRequest) -> dict[str, Any]:
    """For every template: the strips of this page, made when a page first asks for them."""
    return {
        "strips": SimpleLazyObject(
            lambda: [
                {"template": one.template, "style": one.style, "strip": shown}
                for one in _strips
                if (shown := one.of(request)) is not None
            ]
        )
    }


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
