"""Addresses and secrets of channels as the database has them: sealed with a key that is made of the
node's secret key, so that a copy of the database opens none of them.
"""

from __future__ import annotations

import base64

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


class SealBroken(Exception):
    """It was sealed with another SLUICE_SECRET_KEY: give the address of the channel again."""


def sealed(text: str) -> str:
    return _key().encrypt(text.encode()).decode()


def unsealed(text: str) -> str:
    """What was sealed. Raises SealBroken."""
    try:
        return _key().decrypt(text.encode()).decode()
    except InvalidToken as error:
        raise SealBroken(
            "its address was sealed with another SLUICE_SECRET_KEY; give it again"
        ) from error


def _key() -> Fernet:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"sluice channels")
    return Fernet(base64.urlsafe_b64encode(derived.derive(settings.SECRET_KEY.encode())))
