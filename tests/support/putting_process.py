"""A process that puts a content into a file of a table, and stops where it is told to.

python -m tests.support.putting_process <directory> <path> <content>
"""

from __future__ import annotations

import sys
from functools import partial

from tests.support.stopped_calls import serve
from workers.storage.local import LocalStorage


def main(location: str, path: str, content: str) -> None:
    serve(partial(LocalStorage(location).put, path, content.encode()), below=location)


if __name__ == "__main__":
    main(*sys.argv[1:])
