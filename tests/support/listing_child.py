"""A bounded process that makes an Arrow array of a list, and answers whether it has pandas."""

from __future__ import annotations

import json
import sys

import pyarrow as pa

from workers.bounded_process import say, take_limits


def main() -> None:
    take_limits(json.load(sys.stdin))
    pa.array([1])
    say({"has_pandas": sys.modules.get("pandas") is not None})


if __name__ == "__main__":
    main()
