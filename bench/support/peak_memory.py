"""What a process held of memory at most."""

from __future__ import annotations

from pathlib import Path


def peak_mib() -> float:
    """Of this process. Not `ru_maxrss`, which begins with that of the process that this one was
    forked from.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
