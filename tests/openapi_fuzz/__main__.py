"""Send requests that the OpenAPI document allows, and others that it does not, as each role to the
API on a PostgreSQL of its own: `python -m tests.openapi_fuzz 20000`.

Each request runs in a transaction that is rolled back, so that no request changes what the next
one finds. A fault is printed with the command that sends the same request again.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import signal
import sys
import tempfile
from pathlib import Path

from bench.support.postgres import postgres_cluster
from tests.gate import print_line

SEED = "SLUICE_TEST_SEED"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.openapi_fuzz", description=__doc__)
    parser.add_argument("requests", type=int, help="how many, spread over addresses and roles")
    parser.add_argument("--addresses", type=int, help="only so many of them, drawn by the seed")
    parser.add_argument("--only", default="", help="only addresses whose path contains this")
    parser.add_argument("--seed", type=int, default=int(os.environ.get(SEED, "1")))
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    # A run that is ended early stops its PostgreSQL as well.
    signal.signal(signal.SIGTERM, lambda *_given: sys.exit(1))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.test")
    with postgres_cluster() as address, tempfile.TemporaryDirectory() as root:
        os.environ["SLUICE_TEST_DATABASE"] = address
        import django

        django.setup()
        from tests.openapi_fuzz.run import Run

        run = Run.prepare(Path(root), seed=options.seed)
        chosen = [each for each in run.addresses() if options.only in each.path]
        if options.addresses is not None:
            chosen = random.Random(options.seed).sample(chosen, options.addresses)
        run.send(chosen, options.requests)
        run.end()
    for line in run.report():
        print_line(line)
    return int(bool(run.faults))


if __name__ == "__main__":
    sys.exit(main())
