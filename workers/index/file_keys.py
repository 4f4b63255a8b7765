"""The record keys that a base file may have according to its footer: only the footer is read, and
keys that it does not exclude count as present.
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
    """The keys in one base file's footer; the filter is parsed at its first use."""

    path: str
    footer: FooterKeys

    @property
    def range(self) -> KeyRange | None:
        """The least and the greatest key, or None if the footer has none."""
        return self.footer.range

    @cached_property
    def filter(self) -> BloomFilter | None:
        """The file's filter, or None if it has none. Raises MalformedTable naming the file."""
        filter_text = self.footer.filter
        if filter_text is None:
            return None
        try:
            return BloomFilter.from_text(filter_text.text, filter_text.type_code)
        except MalformedTable as error:
            raise MalformedTable(error.message, path=self.path, **error.values) from error

    def might_contain(self, keys: HashedKeys) -> npt.NDArray[np.bool_]:
        """Return False for each key that is certainly not in the file.

        Raises InvalidInput for keys that are null, empty, or not text, and MalformedTable.
        """
        if self.range is None:
            might_be = np.ones(len(keys.keys), np.bool_)
        else:
            might_be = self.range.can_contain(keys.keys)
        # A filter is not even parsed for keys that are all outside.
        if not might_be.any() or self.filter is None:
            return might_be
        return keys.might_be_in(self.filter, might_be)


def read_file_keys(storage: Storage, path: str) -> FileKeys:
    """Read the keys with one read of the file's footer. Raises NotFound, MalformedTable."""
    return FileKeys(path, read_footer_keys(storage, path))
