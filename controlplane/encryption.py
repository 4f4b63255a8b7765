"""Secrets as the database stores them: encrypted with a key derived from the node's secret key, so
that a copy of the database reveals none of them. Each use has a key of its own.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


class SealBroken(Exception):
    """The text was sealed with another SLUICE_SECRET_KEY, or for another use: enter it again."""


@dataclass(frozen=True, slots=True)
class Seal:
    """Encrypts the secrets of one use, such as alert channels."""

    use: bytes
    """Enters the key. Secrets that are stored already open only under the same bytes."""
    advice: str
    """The message of the error for a broken seal."""

    def close(self, text: str) -> str:
        """Encrypt the text."""
        return self._key().encrypt(text.encode()).decode()

    def open(self, text: str) -> str:
        """Decrypt what `close` returned. Raises SealBroken."""
        try:
            return self._key().decrypt(text.encode()).decode()
        except InvalidToken as error:
            raise SealBroken(self.advice) from error

    def _key(self) -> Fernet:
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=self.use)
        return Fernet(base64.urlsafe_b64encode(derived.derive(settings.SECRET_KEY.encode())))


CHANNELS = Seal(
    b"sluice channels", "its address was sealed with another SLUICE_SECRET_KEY; give it again"
)
CONNECTIONS = Seal(
    b"sluice connections",
    "the connection's secrets were sealed with another SLUICE_SECRET_KEY; an admin must enter "
    "them again",
)
