"""A process that counts in a file of a table by conditional writes, and stops where it is told to.

python -m tests.support.counting_process <directory> <path>
"""

from __future__ import annotations

import sys
from functools import partial

from tests.support.stopped_calls import serve
from workers.errors import NotFound
from workers.storage.base import Storage
from workers.storage.local import LocalStorage


def count_once(storage: Storage, path: str) -> bool:
    try:
        tagged_count = storage.read_tagged(path)
    except NotFound:
        return storage.put_if_absent(path, b"1")
    counted = str(int(tagged_count.content) + 1).encode()
    return storage.replace_if_match(path, counted, tagged_count.tag) is not None


def main(location: str, path: str) -> None:
    serve(partial(count_once, LocalStorage(location), path), below=location)


if __name__ == "__main__":
    main(*sys.argv[1:])
