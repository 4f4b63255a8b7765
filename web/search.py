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
_PAGES: Final = (
    ("home", "Home"),
    ("tables", "Tables"),
    ("operations", "Operations"),
    ("sql", "SQL"),
    ("approvals", "Approvals"),
    ("tokens", "Tokens"),
    ("alerts", "Alerts"),
    ("preferences", "Preferences"),
)
_PAGES_OF_AUDITORS: Final = (("people", "People"), ("audit", "Audit"))
_PAGES_OF_ADMINS: Final = (("channels", "Channels"), ("node-settings", "Settings of the node"))


@dataclass(frozen=True, slots=True)
class FoundLink:
    title: str
    note: str
    url: str


@dataclass(frozen=True, slots=True)
class FoundGroup:
    title: str
    links: list[FoundLink]


def found_groups(hits: SearchHits, pages: list[FoundLink]) -> list[FoundGroup]:
    """Only groups with a link in them."""
    groups = [
        FoundGroup(
            TABLES,
            [
                FoundLink(hit.name, hit.slug, reverse("live", args=[hit.slug]))
                for hit in hits.tables
            ],
        ),
        FoundGroup(
            "Instants",
            [
                FoundLink(
                    hit.instant,
                    f"{hit.what} in {hit.table_name}",
                    f"{reverse('timeline', args=[hit.slug])}?{urlencode({'sel': hit.instant})}",
                )
                for hit in hits.instants
            ],
        ),
        FoundGroup(
            "Operations",
            [
                FoundLink(
                    f"{hit.what.replace('_', ' ').capitalize()} in {hit.table_name}",
                    f"{hit.state}: {hit.reason}" if hit.reason else hit.state,
                    reverse("operation", args=[hit.slug, hit.id]),
                )
                for hit in hits.operations
            ],
        ),
        FoundGroup(
            "Writers",
            [
                FoundLink(hit.writer, f"in {hit.table_name}", reverse("writers", args=[hit.slug]))
                for hit in hits.writers
            ],
        ),
        FoundGroup(
            "People",
            [
                FoundLink(hit.name, ", ".join(hit.roles), reverse("person", args=[hit.id]))
                for hit in hits.people
            ],
        ),
        FoundGroup("Pages", pages),
    ]
    return [group for group in groups if group.links]


def pages_named(request: HttpRequest, slug: str, text: str) -> list[FoundLink]:
    """Pages that the reader may see, of the table at hand and of the node."""
    if len(text) < _CHARS_MIN:
        return []
    reader = shell(request)["shell"]
    named = [
        *_PAGES,
        *(_PAGES_OF_AUDITORS if reader.is_auditor else ()),
        *(_PAGES_OF_ADMINS if reader.is_admin_everywhere else ()),
        *([("access", "Access")] if reader.shows_access else ()),
    ]
    links = [
        FoundLink(title, "of this node", reverse(page))
        for page, title in named
        if text.lower() in title.lower()
    ]
    places = [one for one in PLACES if text.lower() in f"{one.title} {one.words}".lower()]
    if slug and places and may_see_some(person(request)):
        table = access_table(person(request), slug, Permission.VIEW)
        links += [
            FoundLink(place.title, f"of {table.name}", reverse(place.page, args=[slug]))
            for place in places
        ]
    return links
