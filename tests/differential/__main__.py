"""Run stories by their numbers: `python -m tests.differential 17`, or `0 10000`."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.differential.story import Story
from tests.gate import print_line


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int, nargs="?", help="the number behind the last one")
    parser.add_argument("--most-failures", type=int, default=1000)
    parser.add_argument("--trace", action="store_true", help="also where each failure was raised")
    options = parser.parse_args()
    end = options.first + 1 if options.end is None else options.end
    logging.disable(logging.WARNING)
    counts: Counter[str] = Counter()
    failed = done = 0
    began = time.process_time()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as root:
        for number in range(options.first, end):
            story = Story(number, Path(root))
            done += 1
            try:
                story.check()
            except KeyboardInterrupt:
                break
            except AssertionError as error:
                failed += 1
                print_line(f"\nFAILED {number}\n{error}")
                if options.trace:
                    traceback.print_exception(error.__cause__)
                if failed >= options.most_failures:
                    break
            counts += story.counts
            if done % 100 == 0:
                print_line(f"{done} tables, {failed} failed")
    took = time.process_time() - began
    print_line(f"{done} tables, {failed} failed, {took / done:.3f} s of the processor for each")
    for name, count in sorted(counts.items()):
        print_line(f"  {name}: {count}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
