"""What a directory may hold after the power went.

Of a file that is what was in it at its last sync, or any of what came later, or half of it; of a
directory the names at its last sync, and of every change since it is open whether it is there. No
order among changes that nobody synced is taken for granted. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

ROOT = 0


@dataclass(frozen=True, slots=True)
class Contents:
    """A file holds this now."""

    node: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Names:
    """Names of a directory that changed at once: what they stand for now; None for nothing."""

    directory: int
    changed: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class Synced:
    """A file's contents, or a directory's names, are on the disk."""

    node: int


Step = Contents | Names | Synced
Change = Mapping[str, int | None]
"""Of a directory's names, all at once."""
LostFiles = dict[str, bytes]
"""Path to content."""


class Chance(Protocol):
    """What becomes of changes that nobody synced."""

    def content(self, synced: bytes, later: list[bytes]) -> bytes: ...

    def names(self, later: list[Change]) -> list[Change]: ...


class LosesAll:
    """Nothing that was not synced is there: whoever forgot a sync loses what it was for."""

    def content(self, synced: bytes, later: list[bytes]) -> bytes:
        return synced

    def names(self, later: list[Change]) -> list[Change]:
        return []


class KeepsNames(LosesAll):
    """Names are there before what they stand for: whoever named before he synced shows a torn
    file.
    """

    def names(self, later: list[Change]) -> list[Change]:
        return later


class KeepsFirst(LosesAll):
    """The disk had come so far in each directory when the power went."""

    def __init__(self, count: int) -> None:
        self._count = count

    def names(self, later: list[Change]) -> list[Change]:
        return later[: self._count]


class Draws:
    """Each change by itself, with one bias for all of a loss, so that extremes come about too."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._kept = random.choice((0.1, 0.5, 0.9))

    def content(self, synced: bytes, later: list[bytes]) -> bytes:
        content = self._random.choice([synced, *later])
        if content is synced or self._random.random() < self._kept:
            return content
        return content[: self._random.randint(min(len(synced), len(content)), len(content))]

    def names(self, later: list[Change]) -> list[Change]:
        return [changed for changed in later if self._random.random() < self._kept]


@dataclass
class Disk:
    """What is safe, and what is under way, after some steps."""

    _contents: dict[int, bytes] = field(default_factory=dict)
    _later_contents: dict[int, list[bytes]] = field(default_factory=dict)
    _names: dict[int, dict[str, int]] = field(default_factory=dict)
    _later_names: dict[int, list[Change]] = field(default_factory=dict)

    def take(self, steps: Iterable[Step]) -> None:
        for step in steps:
            match step:
                case Contents(node, content):
                    self._later_contents.setdefault(node, []).append(content)
                case Names(directory, changed):
                    self._later_names.setdefault(directory, []).append(changed)
                case Synced(node):
                    for changed in self._later_names.pop(node, []):
                        _rename(self._names.setdefault(node, {}), changed)
                    if node in self._later_contents:
                        self._contents[node] = self._later_contents.pop(node)[-1]

    def after_power_loss(self, chance: Chance) -> LostFiles:
        """Drawn anew with each call."""
        left: LostFiles = {}
        self._gather(ROOT, "", left, chance, {})
        return left

    def _gather(
        self, directory: int, prefix: str, left: LostFiles, chance: Chance, drawn: dict[int, bytes]
    ) -> None:
        names = dict(self._names.get(directory, {}))
        for changed in chance.names(self._later_names.get(directory, [])):
            _rename(names, changed)
        for name, node in sorted(names.items()):
            if self._is_directory(node):
                self._gather(node, f"{prefix}{name}/", left, chance, drawn)
                continue
            if node not in drawn:  # One file has one content, whatever its names.
                later = self._later_contents.get(node, [])
                drawn[node] = chance.content(self._contents.get(node, b""), later)
            left[prefix + name] = drawn[node]

    def _is_directory(self, node: int) -> bool:
        return node in self._names or node in self._later_names


def _rename(names: dict[str, int], changed: Change) -> None:
    for name, node in changed.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node
