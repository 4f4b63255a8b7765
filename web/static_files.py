"""Where the pages' own files stand, under names that carry the hash of what is in them."""

from __future__ import annotations

from typing import Any

import brotli
from whitenoise.compress import Compressor
from whitenoise.storage import CompressedManifestStaticFilesStorage

_BROTLI_QUALITY = 9
"""The library's default, 11, takes twelve times as long and saves a tenth of the bytes."""


class QuickCompressor(Compressor):
    """Compress Plotly's 5 MB in one second instead of fifteen, which the first `up` waits for."""

    @staticmethod
    def compress_brotli(data: bytes) -> bytes:
        return bytes(brotli.compress(data, quality=_BROTLI_QUALITY))


class RememberedAddresses(CompressedManifestStaticFilesStorage):
    """Works each address out once in a process: its files stay what they are for as long.

    A page names some hundred times the file of its icons, and each time took a look at it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._addresses: dict[str, str] = {}

    def create_compressor(self, **kwargs: Any) -> Compressor:
        """Return what compresses the collected files."""
        return QuickCompressor(**kwargs)

    def url(self, name: str | None, force: bool = False) -> str:
        """The address of the file with this name. Raises ValueError where there is none."""
        if name is None or force:
            return str(super().url(name, force))
        if name not in self._addresses:
            self._addresses[name] = str(super().url(name))
        return self._addresses[name]
