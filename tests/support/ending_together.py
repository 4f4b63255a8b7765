"""End after SIGTERM, but not before the other process has received it as well.

python -m tests.support.ending_together <name>, with the folder of both in SLUICE_HOME
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

NAMES = ("first", "second")


def main(name: str) -> None:
    home = Path(os.environ["SLUICE_HOME"])
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    (home / f"{name}.runs").touch()
    signal.sigwait([signal.SIGTERM])
    (home / f"{name}.stops").touch()
    while not all((home / f"{other}.stops").exists() for other in NAMES):
        time.sleep(0.01)
    (home / f"{name}.ended").touch()


if __name__ == "__main__":
    main(sys.argv[1])
