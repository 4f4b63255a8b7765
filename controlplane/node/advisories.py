"""Pinned packages against advisories, without the network: records in the form of OSV
(ossf.github.io/osv-schema), as the directory or the archive of the ecosystem PyPI has them.

What cannot be judged, such as a range of versions that nobody can order, counts as a hit: a person
looks at it then.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

RECORD_BYTES_MAX: Final = 16 << 20
_ECOSYSTEM: Final = "PyPI"
_ORDERED: Final = frozenset({"ECOSYSTEM", "SEMVER"})


class UnreadableAdvisories(Exception):
    """The directory or one of its records is not as OSV writes them; nothing was judged."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An advisory that a pinned version falls under."""

    name: str
    version: str
    advisory: str
    aliases: tuple[str, ...]
    summary: str
    fixed_in: tuple[str, ...]
    """Versions that end a range; empty where the record names none."""

    def line(self) -> str:
        """For people: what, which advisory, and what mends it."""
        names = ", ".join((self.advisory, *self.aliases))
        mended = f"; fixed in {', '.join(self.fixed_in)}" if self.fixed_in else "; no fix is named"
        return f"{self.name} {self.version}: {names}: {self.summary}{mended}"


@dataclass(frozen=True, slots=True)
class Judged:
    records: int
    """That are of Python packages; none means that the wrong directory was given."""
    hits: tuple[Hit, ...]


def judge(place: Path, pins: Iterable[tuple[str, str]], accepted: Iterable[str] = ()) -> Judged:
    """The hits of all records at `place`, a directory or a .zip, on (name, version). Those that are
    withdrawn, or accepted by one of their names, are none. Raises UnreadableAdvisories.
    """
    versions: dict[str, list[str]] = {}
    for name, version in pins:
        versions.setdefault(canonicalize_name(name), []).append(version)
    passed_over = set(accepted)
    records, hits = 0, list[Hit]()
    for where, text in _texts(place):
        record = _record(where, text)
        affected = [part for part in record["affected"] if _is_of_pypi(part)]
        records += bool(affected)
        names = {record["id"], *record.get("aliases", ())}
        if record.get("withdrawn") or names & passed_over:
            continue
        for part in affected:
            name = canonicalize_name(part["package"]["name"])
            hits += [
                _hit(record, part, name, version)
                for version in versions.get(name, ())
                if _is_affected(part, version)
            ]
    ordered = sorted(set(hits), key=lambda hit: (hit.name, hit.version, hit.advisory))
    return Judged(records, tuple(ordered))


def _texts(place: Path) -> Iterator[tuple[str, bytes]]:
    try:
        if place.is_dir():
            for path in sorted(place.rglob("*.json")):
                yield str(path), path.read_bytes()
        else:
            with zipfile.ZipFile(place) as archive:
                for part in archive.infolist():
                    if part.file_size > RECORD_BYTES_MAX:
                        raise UnreadableAdvisories(f"{place}: {part.filename} is too large")
                    if part.filename.endswith(".json"):
                        yield f"{place}: {part.filename}", archive.read(part)
    except (OSError, zipfile.BadZipFile) as error:
        raise UnreadableAdvisories(f"{place} must be a directory or a .zip: {error}") from error


def _record(where: str, text: bytes) -> dict[str, Any]:
    try:
        record = json.loads(text)
        assert_form = (record["id"], record.setdefault("affected", []), record.get("aliases", []))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnreadableAdvisories(f"{where} is not a valid OSV record: {error!r}") from error
    if [type(part) for part in assert_form] != [str, list, list]:
        raise UnreadableAdvisories(
            f"{where} is not a valid OSV record: invalid id, affected or aliases"
        )
    return dict(record)


def _is_of_pypi(part: Mapping[str, Any]) -> bool:
    package = part.get("package", {})
    return bool(package.get("ecosystem") == _ECOSYSTEM and package.get("name"))


def _is_affected(part: Mapping[str, Any], version: str) -> bool:
    if any(_is_same(version, listed) for listed in part.get("versions", ())):
        return True
    ranges = [one for one in part.get("ranges", ()) if one.get("type") in _ORDERED]
    return any(_is_in(one.get("events", ()), version) for one in ranges)


def _is_same(version: str, listed: str) -> bool:
    try:
        return Version(version) == Version(listed)
    except InvalidVersion:
        return version == listed


def _is_in(events: Sequence[Mapping[str, str]], version: str) -> bool:
    """As OSV says to read the events: in the order of their versions, the last one that counts."""
    try:
        at = Version(version)
        ordered = sorted(
            (Version("0.dev0" if text == "0" else text), kind)
            for event in events
            for kind, text in event.items()
            if kind in ("introduced", "fixed", "last_affected")
        )
    except InvalidVersion:
        return True
    is_in = False
    for bound, kind in ordered:
        if kind == "introduced" and at >= bound:
            is_in = True
        elif (kind == "fixed" and at >= bound) or (kind == "last_affected" and at > bound):
            is_in = False
    return is_in


def _hit(record: Mapping[str, Any], part: Mapping[str, Any], name: str, version: str) -> Hit:
    fixed = (
        event["fixed"]
        for one in part.get("ranges", ())
        if one.get("type") in _ORDERED
        for event in one.get("events", ())
        if "fixed" in event
    )
    text = record.get("summary") or str(record.get("details", "")).strip().partition("\n")[0]
    return Hit(
        name=name,
        version=version,
        advisory=record["id"],
        aliases=tuple(record.get("aliases", ())),
        summary=text[:200] or "no summary",
        fixed_in=tuple(dict.fromkeys(fixed)),
    )
