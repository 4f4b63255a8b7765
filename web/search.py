"""The results of a search as links, by kind, and the pages whose title contains the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from controlplane.home.search import SearchHits
from controlplane.tables.access import Permission, access_table, may_see_some
from web.refusals import person
from web.shell import PLACES, shell

TABLES: Final = "Tables"
_CHARS_MIN: Final = 3


@dataclass(frozen=True, slots=True)
class SearchLink:
    title: str
    note: str
    url: str


@dataclass(frozen=True, slots=True)
class SearchGroup:
    title: str
    links: list[SearchLink]


def build_groups(hits: SearchHits, pages: list[SearchLink]) -> list[SearchGroup]:
    """Only groups with a link in them."""
    groups = [
        SearchGroup(
            TABLES,
            [
                SearchLink(hit.name, hit.slug, reverse("live", args=[hit.slug]))
                for hit in hits.tables
            ],
        ),
        SearchGroup(
            "Instants",
            [
                SearchLink(
                    hit.instant,
                    f"{hit.what} in {hit.table_name}",
                    f"{reverse('timeline', args=[hit.slug])}?{urlencode({'sel': hit.instant})}",
                )
                for hit in hits.instants
            ],
        ),
        SearchGroup(
            "Operations",
            [
                SearchLink(
                    f"{hit.what.replace('_', ' ').capitalize()} in {hit.table_name}",
                    f"{hit.state}: {hit.reason}" if hit.reason else hit.state,
                    reverse("operation", args=[hit.slug, hit.id]),
                )
                for hit in hits.operations
            ],
        ),
        SearchGroup(
            "Writers",
            [
                SearchLink(hit.writer, f"in {hit.table_name}", reverse("writers", args=[hit.slug]))
                for hit in hits.writers
            ],
        ),
        SearchGroup(
            "Users",
            [
                SearchLink(hit.name, ", ".join(hit.roles), reverse("person", args=[hit.id]))
                for hit in hits.people
            ],
        ),
        SearchGroup("Pages", pages),
    ]
    return [group for group in groups if group.links]


def pages_named(request: HttpRequest, slug: str, text: str) -> list[SearchLink]:
    """Pages that the reader may see, of the table at hand and of the node."""
    if len(text) < _CHARS_MIN:
        return []
    reader = shell(request)["shell"]
    links = [
        SearchLink(place.title, "of this node", reverse(place.page))
        for group in reader.node_groups
        for place in group.places
        if text.lower() in place.title.lower()
    ]
    places = [place for place in PLACES if text.lower() in f"{place.title} {place.words}".lower()]
    if slug and places and may_see_some(person(request)):
        table = access_table(person(request), slug, Permission.VIEW)
        links += [
            SearchLink(place.title, f"of {table.name}", reverse(place.page, args=[slug]))
            for place in places
        ]
    return links
