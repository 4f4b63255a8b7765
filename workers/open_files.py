"""How many files and sockets this process may have open at once."""

from __future__ import annotations

import resource


def allow_open_files(wanted: int) -> None:
    """As many as `wanted`, where the system lets this user have them; else as many as it lets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
