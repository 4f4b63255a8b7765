"""A process that runs one table service, or a rollback, for each line that it is told, and stops
before the n-th call on the table's files.

python -m tests.support.stopped_service <table> <order as JSON>
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.support.stopped_calls import StoppedProcess, serve
from workers.errors import LakehouseError
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest

ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class Order:
    service: str
    """Or `ROLLBACK`."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    """The instant that a rollback takes back."""
    options: Mapping[str, str] = field(default_factory=dict)

    def carry_out(self, location: Path) -> str:
        """What was done, in words. Raises what the service raises."""
        table, options = open_table(location).table, write_options(self.options)
        if self.service == ROLLBACK:
            request = RollbackRequest(self.target, by="test", reason="test")
            return f"rolled back: {rollback(table, request, options)}"
        service_request = ServiceRequest(by="test", reason="test", parameters=self.parameters)
        return get_service(self.service).run(table, service_request, options).summary


class StoppedService(StoppedProcess):
    """The side of the test."""

    def __init__(self, location: Path, order: Order) -> None:
        super().__init__("tests.support.stopped_service", str(location), json.dumps(asdict(order)))


def main(location: str, order: str) -> None:
    parsed_order = Order(**json.loads(order))

    def run() -> dict[str, str]:
        try:
            return {"summary": parsed_order.carry_out(Path(location))}
        except LakehouseError as error:
            return {"raised": type(error).__name__, "text": str(error)}

    serve(run, below=location)


if __name__ == "__main__":
    main(*sys.argv[1:])
