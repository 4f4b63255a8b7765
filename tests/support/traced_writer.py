"""`python -m tests.support.traced_writer <location> <marker port>`: a process that traces, and
writes one row in a span of its own; its name holds what its environment holds as a secret.
"""

from __future__ import annotations

import os
import sys

import pyarrow as pa

from workers import create_table, open_table
from workers.log_lines import configure
from workers.traces import configure_traces, span


def main(location: str, port: str) -> None:
    configure(os.environ)
    configure_traces(os.environ, "traced-writer")
    rows = pa.table({"id": [1], "city": ["Oslo"]})
    create_table(location, name="cities", schema=rows.schema, record_key=["id"])
    options = {
        "sluice.writer.name": f"w-{os.environ.get('AWS_SECRET_ACCESS_KEY', '')}",
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "sluice.marker.url": f"http://127.0.0.1:{port}",
    }
    with span("driver", {"said": "password=c4nary-word"}, parent=os.environ["TRACEPARENT"]):
        outcome = open_table(location).write(rows, options=options)
    try:
        with span("broken"):
            raise ValueError("c4nary-of-an-error")
    except ValueError:
        sys.stdout.write(f"{type(outcome).__name__}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
