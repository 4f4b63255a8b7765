"""Text that reads as something else: invisible and turning characters, and letters that look like
those of another alphabet.

A location is shown to whoever confirms what is done to it, so two that look the same must be the
same. Words of one alphabet are fine in every alphabet.
"""

from __future__ import annotations

import re
import unicodedata

from controlplane.errors import InvalidRequest

_LETTERS = re.compile(r"[^\W\d_]+")
_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp", "Me"})
_TOGETHER = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"})
"""Alphabets that are written together."""
_LIKE_LATIN = {
    "CYRILLIC": frozenset("аеорсухіјѕһԁԛԝѵАВЕКМНОРСТУХІЈЅԚԜ"),
    "GREEK": frozenset("ονΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"),  # noqa: RUF001 - they look alike
}


def refuse_deceptive(text: str) -> None:
    """Refuse, as InvalidRequest, text that deceives; the character is named instead of shown."""
    if text.isascii() and text.isprintable():
        return  # Of most locations, and the mirror asks for all of them every two seconds.
    for character in text:
        if _is_unseen(character):
            raise _refusal("the location contains an invisible character", text, character)
        if unicodedata.normalize("NFKC", character) != character or _is_other_digit(character):
            raise _refusal(
                "the location contains a character that can be confused with another",
                text,
                character,
            )
    for word in _LETTERS.findall(text):
        if (letter := _borrowed(word)) is not None:
            raise _refusal(
                "the location contains a character that can be confused with one of "
                "another alphabet",
                text,
                letter,
            )


def _is_unseen(character: str) -> bool:
    category = unicodedata.category(character)
    return category in _UNSEEN or (category == "Zs" and character != " ")


def _is_other_digit(character: str) -> bool:
    return not character.isascii() and character.isdigit()


def _borrowed(word: str) -> str | None:
    """The first letter of another alphabet than the word's; of a word that is wholly made of
    letters that look Latin, its first.
    """
    if word.isascii():
        return None
    alphabets = [_alphabet(character) for character in word]
    for character, alphabet in zip(word, alphabets, strict=True):
        if alphabet != alphabets[0]:
            return character if not character.isascii() else word[0]
    if all(character in _LIKE_LATIN.get(alphabets[0], ()) for character in word):
        return word[0]
    return None


def _alphabet(character: str) -> str:
    name = re.split("[ -]", unicodedata.name(character, "?"))[0]
    return "CJK" if name in _TOGETHER else name


def _refusal(message: str, text: str, character: str) -> InvalidRequest:
    name = unicodedata.name(character, "without a name")
    return InvalidRequest(
        message,
        character=f"U+{ord(character):04X} {name}",
        location=text[:200].encode("ascii", "backslashreplace").decode(),
    )
