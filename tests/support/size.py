"""The size of the code by package: modules, lines, short modules, and hits of the language rules.

`python -m tests.support.size` prints a table, and so does `make size`. Compare the tables from
before and after a change of structure. The numbers have no limit.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.support.language import count_hits
from tests.support.source_files import sources

SHORT_LINES = 60
"""Modules with fewer lines are counted as short."""
_TREES = ("bench", "controlplane", "tests", "web", "workers")
_SPLIT_TREES = ("controlplane", "workers")
"""Trees that are counted package by package."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of one package, or of all of them."""

    modules: int = 0
    lines: int = 0
    short_modules: int = 0
    language_hits: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(
            self.modules + other.modules,
            self.lines + other.lines,
            self.short_modules + other.short_modules,
            self.language_hits + other.language_hits,
        )


def measure_packages(
    files: Iterable[tuple[str, str]], hits: Mapping[str, Counter[str]]
) -> dict[str, Size]:
    """Return the size of each package, by its path.

    Args:
        files: name and text of each Python file. Files outside of packages are left out.
        hits: hits of the language rules, by file.
    """
    sizes: dict[str, Size] = {}
    for name, text in files:
        package = _get_package(name)
        if package is not None:
            lines = text.count("\n")
            size = Size(1, lines, int(lines < SHORT_LINES), hits.get(name, Counter()).total())
            sizes[package] = sizes.get(package, Size()) + size
    return dict(sorted(sizes.items()))


def format_table(sizes: Mapping[str, Size]) -> Iterator[str]:
    """Yield the lines of a table with one package each, and with the total last."""
    width = max(map(len, [*sizes, "package"]))
    yield f"{'package':{width}} modules   lines  <{SHORT_LINES} lines  language hits"
    for name, size in [*sizes.items(), ("total", sum(sizes.values(), Size()))]:
        yield (
            f"{name:{width}} {size.modules:7} {size.lines:7} {size.short_modules:10}"
            f" {size.language_hits:14}"
        )


def _get_package(name: str) -> str | None:
    tree, *folders = name.split("/")[:-1] or [""]
    if tree not in _TREES:
        return None
    return f"{tree}/{folders[0]}" if folders and tree in _SPLIT_TREES else tree


def _main() -> int:
    for line in format_table(measure_packages(sources(), count_hits())):
        sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(_main())
