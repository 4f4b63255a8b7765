"""Statements in `tests/security/statements`: a line `--- what it is`, then the statement."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent.parent / "security/statements"


def statements(name: str) -> list[tuple[str, str]]:
    """What each statement of `<name>.sql` is, and its text."""
    blocks = (_HERE / f"{name}.sql").read_text().split("--- ")[1:]
    titled = (block.partition("\n") for block in blocks)
    return [(title.strip(), text.strip()) for title, _, text in titled]


def planted(text: str, canary_file: Path) -> str:
    """The statement with the path of a file that nobody may read, and `REPEAT n x` spelled out."""
    if text.startswith("REPEAT "):
        _, times, part = text.split(" ", 2)
        closing = part.count("(") * int(times) * ")"
        return f"SELECT {part * int(times)}1{closing}"
    return text.replace("CANARY_FILE", str(canary_file))
