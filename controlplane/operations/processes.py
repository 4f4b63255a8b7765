"""Processes of this machine by pid, told apart by their command line, since pids come back."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def is_running(pid: int, word: str) -> bool:
    """Whether `pid` lives and was started with `word` in its command line. A zombie has ended."""
    folder = Path("/proc") / str(pid)
    try:
        words = (folder / "cmdline").read_bytes().split(b"\0")
        state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X") and any(word.encode() in part for part in words)


def kill_group(pid: int, word: str) -> bool:
    """SIGKILL to the process group that `pid` leads; False when it is not the process that is
    meant.
    """
    if not is_running(pid, word) or os.getpgid(pid) != pid:
        return False
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    return True
