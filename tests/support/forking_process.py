"""A process that repeats an action, and forks: it exits with 0 if its child repeats actions of its
own and not those of its parent.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from workers.ports import ThreadScheduler

SOON_S = 0.01
_WAIT_S_MAX = 60.0


def main() -> int:
    scheduler, of_parent = ThreadScheduler(), threading.Event()
    repetition = scheduler.every(SOON_S, of_parent.set, name="of the parent")
    assert of_parent.wait(_WAIT_S_MAX)
    if (child := os.fork()) == 0:
        of_parent.clear()
        os._exit(_judge_child(scheduler, of_parent))
    _, status = os.waitpid(child, 0)
    repetition.stop()
    return os.waitstatus_to_exitcode(status)


def _judge_child(scheduler: ThreadScheduler, of_parent: threading.Event) -> int:
    own = threading.Event()
    scheduler.every(SOON_S, own.set, name="of the child")
    is_repeated = own.wait(_WAIT_S_MAX)
    time.sleep(SOON_S * 20)  # The action of the parent would be due many times.
    if not is_repeated:
        return 1
    return 2 if of_parent.is_set() else 0


if __name__ == "__main__":
    sys.exit(main())
