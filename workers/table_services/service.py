"""The interface of all table services: a plan to check, a request to run it, progress, an outcome.

A plan changes nothing. Its hash covers all that the user was shown. It is compared again when the
plan runs, so that exactly the confirmed plan is carried out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from workers.clock import InstantTime
from workers.errors import PlanChanged, ServiceRefused
from workers.options.write_options import WriteOptions
from workers.table.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE_ROWS: Final = 10
"""At most so many rows are in the sample of a plan."""
Progress = Callable[[int, int], None]
"""(items done, items in all)."""


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One thing that the service will touch."""

    what: str
    """A path relative to the table, a file group as `partition/file id`, or an instant."""
    effect: str
    """In one word: `delete`, `merge`, `rewrite`, `archive`, `keep`, `undo`, `write`."""
    bytes: int = 0
    detail: str = ""
    digest: str = ""
    """The digest of the content, if name and size do not identify it; part of the plan's hash."""


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """What a service would do, as a person is shown it. Planning changes nothing."""

    service: str
    summary: str
    """One sentence for people: `merge 24 logs into 8 file groups`."""
    items: tuple[PlanItem, ...] = ()
    instant: InstantTime | None = None
    """The pending instant that running carries out; None when running schedules it first."""
    blockers: tuple[str, ...] = ()
    """Reasons why it is refused; empty when it may run."""
    warnings: tuple[str, ...] = ()
    figures: Mapping[str, int] = field(default_factory=dict)
    """Backlog and sizes by name, for pages: `log_files`, `delta_commits`, `bytes`."""
    sample: pa.Table | None = field(default=None, compare=False)
    """Some of the rows that will be deleted, with the columns that identify them. The control plane
    checks row access before it shows them. The plan's hash leaves them out.
    """
    is_done: bool = False
    """The table is already as the service would leave it: a run that comes again has succeeded."""

    @property
    def is_empty(self) -> bool:
        """There is nothing to do."""
        return not self.items

    @property
    def bytes_total(self) -> int:
        """The bytes of all items."""
        return sum(item.bytes for item in self.items)

    @property
    def plan_hash(self) -> str:
        """Changes with anything that a person was shown and that matters."""
        items = [[item.what, item.effect, item.bytes, item.digest] for item in self.items]
        hashed = [self.service, self.instant, items, list(self.blockers)]
        return hashlib.sha256(json.dumps(hashed).encode()).hexdigest()[:16]

    def check(self, request: ServiceRequest) -> None:
        """Compare with what was confirmed, and look whether it may run. Raises PlanChanged when it
        is not the plan that was confirmed, ServiceRefused.
        """
        if request.expected_plan_hash not in (None, self.plan_hash):
            raise PlanChanged(
                "the table changed since the plan was shown",
                service=self.service,
                shown=request.expected_plan_hash,
                now=self.plan_hash,
            )
        if self.blockers:
            raise ServiceRefused("; ".join(self.blockers), service=self.service)


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """`parameters` are the service's own, as text; each service checks them."""

    by: str
    reason: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    expected_plan_hash: str | None = None


@dataclass(frozen=True, slots=True)
class ServiceOutcome:
    """What a service has done."""

    service: str
    instant: InstantTime | None
    """None when there was nothing to do."""
    summary: str
    figures: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """What a person should know of the table although it was done."""


class Service(Protocol):
    """One service; `workers.table_services.registry` knows them all by name."""

    @property
    def name(self) -> str:
        """The name by which users and tasks request it."""

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """Changes nothing. Raises InvalidInput for parameters that it does not know."""
        ...

    def run(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        on_progress: Progress | None = None,
    ) -> ServiceOutcome:
        """Schedule when needed, then carry out; taken up again after a crash.

        Raises PlanChanged, ServiceRefused, LockTimeout.
        """
        ...
