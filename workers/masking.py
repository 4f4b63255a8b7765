"""Masks of secrets in lines of logs, messages and traces, before they are stored (T15).

Two ways, since neither is enough: by the name before a value, and by the values that this process
itself holds as secrets, anywhere in a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote, unquote, urlsplit

MASK: Final = "***"
VALUE_CHARS_MIN: Final = 8
"""Shorter values are masked by their names only: they would hide ordinary words."""
VALUES_MAX: Final = 200

_NAMES = (
    "passw(?:or)?d|passphrase|secret|token|credential|authorization|signature|jaas|"
    "api[_.-]?key|access[_.-]?key|private[_.-]?key|encryption[_.-]?key|session[_.-]?key|cookie"
)
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
# Every repetition is bounded: the text may be anything, and must not cost more than its length.
_NAMED = re.compile(
    rf"""((?:{_NAMES})[\w.-]{{0,64}}\\{{0,2}}["']?\s{{0,4}}(?:=>|[=:])\s{{0,4}})"""
    r"""(?:(?:basic|bearer|token|worker)\s{1,4})?"""
    r"""(?:\\{0,2}"[^"]*"|\\{0,2}'[^']*'|[^\s"',;&)\]}]+)""",
    re.IGNORECASE,
)
_ARGUMENT = re.compile(rf"(--[\w-]{{0,40}}(?:{_NAMES})[\w-]{{0,40}}\s{{1,4}})\S+", re.IGNORECASE)
_NO_SECRET = ("file", "path", "location", "env", "url", "uri", "enabled", "type")
"""Ends of names whose values only locate a secret, or identify it."""
_BEARER = re.compile(r"\b((?:token|bearer|worker|basic)\s{1,4})[\w.~+/=-]{16,}", re.IGNORECASE)
_IN_URL = re.compile(r"(://[^\s/:@]{0,256}:)[^\s/]{1,1024}@")
_SECRET_VARIABLE = re.compile(
    r"(?:(?:SLUICE|AWS|AZURE|GOOGLE|SPARK).*(?:KEY|SECRET|TOKEN|PASSWORD)|SLUICE_KAFKA_(?!(?:BROKERS|CA_FOLDER)\Z).*|OTEL_.*HEADERS)\Z"
)
"""Of variables also a plain KEY, what a sink is given for its Kafka, and what a collector asks."""
_PEM = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", re.DOTALL
)


class Masker:
    """A mask for known secret values, and for values with the name of a secret."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        spelled = {
            text
            for value in values
            for text in (value, quote(value, safe=""), unquote(value))
            if len(text) >= VALUE_CHARS_MIN
        }
        longest_first = sorted(spelled, key=lambda text: (-len(text), text))[:VALUES_MAX]
        self._values = re.compile("|".join(map(re.escape, longest_first))) if spelled else None

    def mask(self, text: str) -> str:
        """Return the same text, each secret as `***`. Masked text is unchanged."""
        if self._values is not None:
            text = self._values.sub(MASK, text)
        text = _PEM.sub(MASK, text)
        text = _IN_URL.sub(rf"\1{MASK}@", text)
        text = _NAMED.sub(rf"\1{MASK}", text)
        text = _ARGUMENT.sub(rf"\1{MASK}", text)
        return _BEARER.sub(rf"\1{MASK}", text)


def secret_values(*named: Mapping[str, object]) -> set[str]:
    """Return the values of variables and options with the name of a secret, and the passwords in
    addresses.
    """
    values = set()
    for name, value in (pair for mapping in named for pair in mapping.items()):
        if not isinstance(value, str) or not value:
            continue
        if is_secret_name(name) or _SECRET_VARIABLE.match(name):
            values.add(value)
        if password := _password_in(value):
            values |= {password, unquote(password)}
    return values


def is_secret_name(name: str) -> bool:
    """Return True if the value of a variable or an option of this name is a secret."""
    return bool(_SECRET_NAME.search(name)) and not name.lower().endswith(_NO_SECRET)


def _password_in(address: str) -> str:
    if "://" not in address:
        return ""
    try:
        return urlsplit(address).password or ""
    except ValueError:  # No address after all.
        return ""
