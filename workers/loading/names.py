"""The names under which columns of a file are stored: as they are, or made plain by rules."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Final

from workers.errors import InvalidInput
from workers.loading.findings import UnfitNames
from workers.loading.text import guess_of_header

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_SHOWN_MAX: Final = 12
_CHARS_MAX: Final = 128


def stored_names(
    header: Sequence[str],
    *,
    known: Sequence[str],
    is_clean: bool,
    file: str,
    delimiter: str = ",",
) -> list[str]:
    """Return the names under which the columns are stored; `known` are those of the table.

    Raises InvalidInput, which names all columns that have no name of their own, or none that a
    table takes, with the names that they would get.
    """
    advice = guess_of_header(header, delimiter)
    if advice and not all(map(_PLAIN.fullmatch, header)):
        raise InvalidInput(
            f"the first line does not name columns; {advice}",
            file=file,
            line=1,
            first=[name[:40] for name in header[:_SHOWN_MAX]],
        )
    cleaned = clean_names(header, known)
    if is_clean:
        return cleaned
    often = Counter(name.lower() for name in header)
    twice = sorted({name for name in header if often[name.lower()] > 1})
    if twice:
        raise UnfitNames(
            "two columns have the same name, or names that differ only by case; rename one, or "
            "give names=clean, which numbers them",
            file=file,
            line=1,
            columns=[name[:40] for name in twice],
        )
    odd = [
        (old, new) for old, new in zip(header, cleaned, strict=True) if not _PLAIN.fullmatch(old)
    ]
    if odd:
        raise UnfitNames(
            "column names must be letters, digits and '_'; rename them, or give names=clean, which "
            "stores them under these names",
            file=file,
            line=1,
            columns={old[:40]: new for old, new in odd[:_SHOWN_MAX]},
            more=max(0, len(odd) - _SHOWN_MAX),
        )
    by_folded = {name.lower(): name for name in known}
    other_case = {
        old[:40]: by_folded[old.lower()]
        for old in header
        if old not in known and old.lower() in by_folded
    }
    if other_case:
        raise UnfitNames(
            "names differ only by case from columns of the table; rename them, or give "
            "names=clean, which stores them in these columns",
            file=file,
            line=1,
            columns=other_case,
        )
    return list(header)


def clean_names(header: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return a plain name for each column: accents go, each run of other signs becomes `_`, a digit
    in front gets a `_` before it, and a name that comes again gets a number.
    """
    by_folded = {name.lower(): name for name in known}
    used: set[str] = set()
    result = []
    for place, name in enumerate(header, start=1):
        plain = by_folded.get(name.strip().lower()) or _clean(name) or f"column_{place}"
        plain = by_folded.get(plain.lower(), plain)
        unique, number = plain, 1
        while unique.lower() in used:
            number += 1
            numbered = f"{plain}_{number}"
            unique = by_folded.get(numbered.lower(), numbered)
        used.add(unique.lower())
        result.append(unique)
    return result


def _clean(name: str) -> str:
    if _PLAIN.fullmatch(name):
        return name
    folded = unicodedata.normalize("NFKD", name.replace("ß", "ss"))
    letters = "".join(sign for sign in folded if not unicodedata.combining(sign))
    plain = re.sub(r"[^A-Za-z0-9]+", "_", letters).strip("_")[: _CHARS_MAX - 8]
    return f"_{plain}" if plain[:1].isdigit() else plain
