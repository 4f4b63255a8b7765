"""Every page that there is, from the URL resolver, and a line of the table of who may see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from django.urls import URLPattern, URLResolver, get_resolver, reverse


@dataclass(frozen=True, slots=True)
class Expected:
    """One line of the table, for one role."""

    page: str
    """The name of its address, then `:name=value` of the address, then its query."""
    method: str
    answer: str

    @property
    def name(self) -> str:
        return self.page.partition("?")[0].partition(":")[0]

    def address(self, known: Mapping[str, str], wanted: Mapping[str, set[str]]) -> str:
        path, _, query = self.page.partition("?")
        given = dict(pair.split("=") for pair in path.split(":")[1:])
        values = {**known, **given}
        if self.name in ("conflict", "conflict-part"):
            values |= {"slug": "ads", "instant": known["lost"]}
        kwargs = {key: values[key] for key in wanted[self.name]}
        return reverse(self.name, kwargs=kwargs) + (f"?{query}" if query else "")


def pages() -> dict[str, set[str]]:
    """What each page's address takes, by its name; those of the API have a table of their own."""
    named: dict[str, set[str]] = {}
    for pattern in _patterns(get_resolver()):
        assert pattern.name, f"{pattern} has no name, so no table can list it"
        assert pattern.name not in named, f"two addresses are called {pattern.name}"
        named[pattern.name] = set(pattern.pattern.regex.groupindex)
    return named


def _patterns(resolver: URLResolver) -> Iterator[URLPattern]:
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLPattern):
            yield pattern
        elif pattern.namespace != "api":
            yield from _patterns(pattern)
