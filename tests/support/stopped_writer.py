"""A process that writes one row of its own, again and again, and stops in the table's lock where it
is told to.

python -m tests.support.stopped_writer <table> <options as JSON>
"""

from __future__ import annotations

import json
import sys
from itertools import count

import pyarrow as pa

from tests.support.stopped_calls import serve
from workers.errors import LakehouseError
from workers.lakehouse import open_table


def main(location: str, options: str) -> None:
    table, numbers = open_table(location), count(1)

    def write() -> dict[str, object]:
        rows = pa.table({"id": [1], "value": [next(numbers)]})
        try:
            outcome = table.write(rows, options=json.loads(options))
        except LakehouseError as error:
            return {"raised": type(error).__name__, "text": str(error)}
        return {"outcome": type(outcome).__name__, "value": rows["value"][0].as_py()}

    serve(write, below=f"{location}/.hoodie/.locks")


if __name__ == "__main__":
    main(*sys.argv[1:])
