"""Why a table cannot be read, in words for people: each a state that ends by itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from controlplane.errors import ControlPlaneError
from workers.errors import MalformedTable, TableNotFound, UnsupportedTable
from workers.locations import is_bucket_location


class Problem(StrEnum):
    """Stored by its value."""

    GONE = "gone"
    NO_TABLE = "no_table"
    DENIED = "denied"
    DAMAGED = "damaged"
    UNSUPPORTED = "unsupported"
    OUTSIDE = "outside"
    UNAVAILABLE = "unavailable"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class ProblemWords:
    title: str
    """What is wrong with the table, after its name."""
    advice: str
    """A sentence: what to do."""


_WORDS = {
    Problem.GONE: ProblemWords(
        "its folder is not there",
        "Look whether it was moved or deleted, or whether its file system is mounted.",
    ),
    Problem.NO_TABLE: ProblemWords(
        "there is no table in its folder: .hoodie or its properties are missing",
        "Look who took them away; restore .hoodie from a backup.",
    ),
    Problem.DENIED: ProblemWords(
        "the mirror may not read it",
        "Let the user of the mirror's processes read the folder and all below it.",
    ),
    Problem.DAMAGED: ProblemWords(
        "a file of it is damaged",
        "Restore the file that is named from a backup.",
    ),
    Problem.UNSUPPORTED: ProblemWords(
        "it has a feature that Sluice does not read",
        "Read and write it by the engine that made it.",
    ),
    Problem.OUTSIDE: ProblemWords(
        "its location is not one that may be read",
        "It must lie below one of SLUICE_TABLE_ROOTS, links followed.",
    ),
    Problem.UNAVAILABLE: ProblemWords(
        "its storage does not answer",
        "See whether the disk or the bucket works.",
    ),
    Problem.FILES: ProblemWords(
        "its timeline is read, its data files cannot be listed",
        "Look at the file that is named; instants are shown as they are now, file groups are not.",
    ),
}


def problem_of(error: Exception, location: str) -> Problem:
    """What an error of opening or reading the table at `location` means."""
    match error:
        case TableNotFound():
            return Problem.NO_TABLE if _is_there(location) else Problem.GONE
        case MalformedTable():
            return Problem.DAMAGED
        case UnsupportedTable():
            return Problem.UNSUPPORTED
        case ControlPlaneError():
            return Problem.OUTSIDE
        case PermissionError():
            return Problem.DENIED
        case _ if isinstance(error.__cause__, PermissionError):
            return Problem.DENIED
        case _:
            return Problem.UNAVAILABLE


def words_of(problem: str) -> ProblemWords:
    """The words of a stored problem; a mirror that an older program made did not store any."""
    return _WORDS[Problem(problem or Problem.UNAVAILABLE)]


def _is_there(location: str) -> bool:
    """A bucket has no folders: what is there of a table that is gone cannot be told."""
    return not is_bucket_location(location) and Path(location).is_dir()
