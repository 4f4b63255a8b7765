"""Which record keys a base file may hold, as far as its footer tells: nothing but the footer is
read, and what it leaves open is taken for held.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from workers.errors import MalformedTable
from workers.files.base_file import read_footer_keys
from workers.files.footer_keys import FooterKeys
from workers.files.key_range import KeyRange
from workers.index.bloom_filter import BloomFilter, HashedKeys
from workers.storage.base import Storage


@dataclass(frozen=True)
class FileKeys:
    """What one base file's footer says of its keys; the filter is parsed at its first use."""

    path: str
    footer: FooterKeys

    @property
    def range(self) -> KeyRange | None:
        """The least and the greatest key; None where the footer names none."""
        return self.footer.range

    @cached_property
    def filter(self) -> BloomFilter | None:
        """None where the file has none. Raises MalformedTable naming the file."""
        filter_text = self.footer.filter
        if filter_text is None:
            return None
        try:
            return BloomFilter.from_text(filter_text.text, filter_text.type_code)
        except MalformedTable as error:
            raise MalformedTable(error.message, path=self.path, **error.values) from error

    def might_contain(self, keys: HashedKeys) -> npt.NDArray[np.bool_]:
        """False for a key that is certainly not in the file.

        Raises InvalidInput for keys that are null, empty, or no text, and MalformedTable.
        """
        if self.range is None:
            might_be = np.ones(len(keys.keys), np.bool_)
        else:
            might_be = self.range.may_hold(keys.keys)
        # A filter is not even parsed for keys that are all outside.
        if not might_be.any() or self.filter is None:
            return might_be
        return keys.might_be_in(self.filter, might_be)


def read_file_keys(storage: Storage, path: str) -> FileKeys:
    """From one read of the file's footer. Raises NotFound, MalformedTable."""
    return FileKeys(path, read_footer_keys(storage, path))
