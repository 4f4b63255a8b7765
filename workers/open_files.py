"""The limit of files and sockets that this process may have open."""

from __future__ import annotations

import resource


def raise_open_file_limit(count: int) -> None:
    """Raise the limit to `count`, or to the highest that the system allows this user."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
