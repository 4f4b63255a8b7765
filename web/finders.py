"""A staticfiles finder for plotly.js, served from the plotly wheel: one file, nothing vendored,
nothing from a CDN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage, Storage

PLOTLY_JS = "plotly.min.js"


def _package_data() -> Path:
    # Found, not imported: importing plotly costs more than every page together.
    spec = find_spec("plotly")
    assert spec is not None, "plotly is a pinned requirement"
    assert spec.origin is not None, spec
    return Path(spec.origin).parent / "package_data"


class PlotlyFinder(BaseFinder):
    """Offers `plotly/plotly.min.js` and nothing else of the wheel."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._storage = FileSystemStorage(location=str(_package_data()))
        self._storage.prefix = "plotly"  # type: ignore[attr-defined]  # collectstatic reads it from the storage

    def find(self, path: str, find_all: bool = False, **_: Any) -> Any:
        if path != f"plotly/{PLOTLY_JS}":
            return []
        script = str(_package_data() / PLOTLY_JS)
        return [script] if find_all else script

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Storage]]:
        yield PLOTLY_JS, self._storage
