"""The table services that a handle of a table has as methods, one line each."""

from __future__ import annotations

from collections.abc import Mapping

from workers.clock import InstantTime
from workers.options.write_options import write_options
from workers.table import table as tables
from workers.table.table import Table
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceOutcome, ServicePlan, ServiceRequest
from workers.table_services.validation import Validation, validate


class ServedTable:
    """One table, opened. Methods raise InvalidInput, ServiceRefused, ServiceBusy, LockTimeout."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def clean(self, parameters: Mapping[str, str] | None = None) -> ServiceOutcome:
        """Delete files that no retained snapshot needs; parameters as in docs/services.md."""
        return self._serve("clean", parameters or {})

    def archive(self, parameters: Mapping[str, str] | None = None) -> ServiceOutcome:
        """Move the oldest completed instants into the history."""
        return self._serve("archive", parameters or {})

    def savepoint(self, instant: InstantTime | None = None, comment: str = "") -> ServiceOutcome:
        """Hold the files of a completed commit, by default the newest."""
        return self._serve("savepoint", {"instant": instant or "", "comment": comment})

    def delete_savepoint(self, instant: InstantTime) -> ServiceOutcome:
        """Let go of the files that the savepoint of this commit holds."""
        return self._serve("delete_savepoint", {"instant": instant})

    def restore(self, instant: InstantTime, dry_run: bool = False) -> ServicePlan | ServiceOutcome:
        """Undo all commits after `instant`; with `dry_run` return only the plan."""
        if dry_run:
            return get_service("restore").plan(self.table, {"instant": instant})
        return self._serve("restore", {"instant": instant})

    def adopt(self, parameters: Mapping[str, str] | None = None) -> ServiceOutcome:
        """Write into a table that another engine made from now on (docs/foreign-tables.md)."""
        return self._serve("adopt", parameters or {})

    def upgrade(self, parameters: Mapping[str, str] | None = None) -> ServiceOutcome:
        """Bring a table of version 6 or 8 to version 9 (docs/foreign-tables.md)."""
        return self._serve("upgrade", parameters or {})

    def validate(self) -> Validation:
        """Compare the files in Hudi's metadata table with storage; nothing is changed."""
        return validate(self.table)

    def _serve(self, name: str, parameters: Mapping[str, str]) -> ServiceOutcome:
        """Raises InvalidInput, ServiceRefused, ServiceBusy, LockTimeout."""
        request = ServiceRequest(by="python", parameters=parameters)
        outcome = get_service(name).run(self.table, request, write_options({}))
        self.table = tables.open_(self.table.storage, self.table.ports)
        return outcome
