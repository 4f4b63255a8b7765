"""The manual: the documents of `docs/` as pages."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe
from markdown import markdown

from web.refusals import page

_FOLDER: Final = settings.BASE_DIR / "docs"
_TITLE: Final = re.compile(r"\A\s*# (.+)\n")
_LINK: Final = re.compile(r'<a href="(?![a-z]+:|#)([^"#]*)(#[^"]*)?">(.*?)</a>', re.DOTALL)
_IMAGE: Final = re.compile(r'<img alt="([^"]*)"[^>]*>')
_SCROLL: Final = '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>'


@dataclass(frozen=True, slots=True)
class ManualPage:
    """A document as the manual shows it."""

    name: str
    """Its path below `docs/`, without the suffix."""
    title: str
    html: SafeString


@require_safe
@page
def manual(request: HttpRequest, manual_page: str) -> HttpResponse:
    """Show a page of the manual; the list of pages for an empty name."""
    pages = load_titles()
    if manual_page and manual_page not in pages:
        raise Http404(f"the manual has no page {manual_page[:80]}")
    context = {
        "page": "manual",
        "pages": sorted(pages.items(), key=lambda item: ("/" in item[0], item[1].lower())),
        "shown": load_page(manual_page) if manual_page else None,
    }
    return render(request, "pages/manual.html", context)


@cache
def load_titles() -> dict[str, str]:
    """Return the title of each document by its name."""
    return {
        path.relative_to(_FOLDER).with_suffix("").as_posix(): _split(path.read_text("utf-8"))[0]
        for path in _FOLDER.rglob("*.md")
    }


@cache
def load_page(name: str) -> ManualPage:
    """Return the document of this name, which must be one of `load_titles`."""
    title, text = _split((_FOLDER / f"{name}.md").read_text("utf-8"))
    html = markdown(
        text,
        extensions=["tables", "fenced_code", "toc", "sane_lists"],
        extension_configs={"tables": {"use_align_attribute": True}},
    )
    html = _LINK.sub(lambda match: _to_link(name, match), _IMAGE.sub(r"<em>\1</em>", html))
    html = html.replace("<table>", _SCROLL).replace("</table>", "</table></div>")
    # The documents are part of the program; nothing that users write is in them.
    return ManualPage(name, title, mark_safe(html))  # noqa: S308


def _split(text: str) -> tuple[str, str]:
    match = _TITLE.match(text)
    return (match[1].replace("`", ""), text[match.end() :]) if match else ("Untitled", text)


def _to_link(name: str, match: re.Match[str]) -> str:
    """Return a link to another page of the manual; only the words for files that are none."""
    path, anchor, words = match[1], match[2] or "", match[3]
    there = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)).removesuffix(".md")
    if not path.endswith(".md") or there not in load_titles():
        return words
    return f'<a href="{reverse("manual", args=[there])}{anchor}">{words}</a>'
