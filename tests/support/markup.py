"""HTML as a browser takes it: how a template is laid out in lines makes no difference."""

from __future__ import annotations

import re


def compact(html: str) -> str:
    """Runs of white space as one space, none between two tags, none at the edges of an element."""
    html = re.sub(r"\s+", " ", html)
    html = re.sub(r"> (?=<)", ">", html)
    html = re.sub(r"(<[a-zA-Z][^>]*>) ", r"\1", html)
    return re.sub(r" (?=</|>)", "", html)
