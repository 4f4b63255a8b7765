"""How well the colours of `tokens.css` can be told apart, by WCAG 2.2's arithmetic.

.venv/bin/python -m tests.support.contrast          prints the table of docs/design.md
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

TOKENS = Path(__file__).resolve().parents[2] / "web/static/web/css/tokens.css"
THEMES = {
    "day": r":root \{(.*?)\}",
    "night": r':root\[data-theme="dark"\] \{(.*?)\}',
    "night, by the system": r":root:not\(\[data-theme\]\) \{(.*?)\}",
}
TEXT, MARK = 4.5, 3.0
"""The least that AA asks for: of text, and of what one must see to understand or to operate."""
GROUNDS = ("page", "surface", "sunken")
_TONES = ("good", "busy", "warn", "bad", "undone", "quiet")


@dataclass(frozen=True, slots=True)
class Role:
    """What a colour is used for: on which grounds, and how well it must stand out from each."""

    name: str
    grounds: tuple[str, ...]
    least: float


ROLES = (
    Role("ink", (*GROUNDS, "select"), TEXT),
    Role("ink-2", (*GROUNDS, "select"), TEXT),
    Role("ink-3", (*GROUNDS, "select"), TEXT),
    Role("accent", (*GROUNDS, "select", "accent-soft"), TEXT),
    Role("accent-ink", ("accent",), TEXT),
    Role("surface", ("bad",), TEXT),
    *(Role(tone, (*GROUNDS, f"{tone}-soft"), TEXT) for tone in _TONES),
    *(Role(f"{tone}-mark", (*GROUNDS, "quiet-soft"), MARK) for tone in _TONES),
    Role("line-strong", GROUNDS, MARK),
    Role("focus", (*GROUNDS, "accent-soft"), MARK),
)


def colours(theme: str) -> dict[str, str]:
    """The colours of a theme by name, as `#rrggbb`."""
    block = re.search(THEMES[theme], TOKENS.read_text(), re.DOTALL)
    assert block is not None, theme
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block.group(1)))


def contrast(one_colour: str, other: str) -> float:
    """From 1 (the same) to 21 (black on white)."""
    darker, lighter = sorted((_luminance(one_colour), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(share: float) -> float:
    return share / 12.92 if share <= 0.04045 else float(((share + 0.055) / 1.055) ** 2.4)


def worst(role: Role, theme: str) -> tuple[float, str]:
    """The least contrast of a role, and on which ground."""
    known = colours(theme)
    return min((contrast(known[role.name], known[ground]), ground) for ground in role.grounds)


def table() -> str:
    """Markdown: each role with its worst ground in both themes."""
    lines = ["| colour | on | at least | day | night |", "|---|---|---|---|---|"]
    for role in ROLES:
        figures = (f"{ratio:.2f} on {ground}" for ratio, ground in _both(role))
        grounds = ", ".join(role.grounds)
        lines.append(f"| `{role.name}` | {grounds} | {role.least} | {' | '.join(figures)} |")
    return "\n".join(lines)


def _both(role: Role) -> tuple[tuple[float, str], tuple[float, str]]:
    return worst(role, "day"), worst(role, "night")


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
