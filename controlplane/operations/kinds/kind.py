"""What a kind of operation is made of. Each module beside this one fills it in once, as `KIND`, and
that is all that requesting, sending, settling, correcting and showing operations know of it: a new
kind is one new file here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from controlplane.errors import NotAllowedNow
from controlplane.operations import kinds as package
from controlplane.operations.checks import Check
from controlplane.operations.living import worker_is_gone
from controlplane.operations.models import Operation
from controlplane.operations.outcomes import Outcome
from controlplane.operations.states import OperationState
from controlplane.tables.access import Permission
from controlplane.tables.models import Table
from workers.clock import InstantTime

if TYPE_CHECKING:
    from controlplane.operations.ask import Ask


class Job(Protocol):
    """The parameters that a worker gets, checked when they are made and when they are read."""

    TASK: ClassVar[str]
    """The Celery task that carries them out."""

    def to_message(self) -> dict[str, Any]:
        """As JSON."""

    @classmethod
    def from_message(cls, message: object) -> Self:
        """The job of such a message. Raises InvalidInput."""


class Permitted(Protocol):
    """What a role may depend on: an `Ask`, and the `Operation` that was made of it."""

    @property
    def service(self) -> str:
        """The table service that it runs, if it runs one."""

    @property
    def is_bound_to_plan(self) -> bool: ...


class Cancelling(Enum):
    """How an operation is ended before its end."""

    NEVER = "it is carried to its end once it began"
    BETWEEN_STEPS = "its worker looks between two things that its plan names"
    BY_JOB = "another job ends its driver and its tasks"
    STOPPED = "it runs until it is stopped, which is another request"


def never(_operation: Operation) -> bool:
    return False


def always(_operation: Operation) -> bool:
    return True


def any_instant(_operation: Operation, _instant: InstantTime) -> bool:
    return True


def left_alone(operation: Operation, now: datetime) -> None:
    """What lives needs nobody."""


def sent_again(_operation: Operation, _now: datetime) -> bool:
    """The next worker finds out what the one before it has done."""
    return False


def named_after_its_kind(operation: Operation) -> str:
    writer = str(operation.parameters.get("writer", ""))
    return f"{operation.kind.capitalize()} by {writer}" if writer else operation.kind.capitalize()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Functions of an operation raise LakehouseError, ControlPlaneError, OSError when storage does
    not answer.
    """

    name: str
    """In the database, in the API and in the audit."""
    job: type[Job]
    permission: Callable[[Permitted], Permission]
    """What somebody needs who asks for it, and still needs whenever it is sent again."""
    confirm: Callable[[Operation, OperationState], Outcome | None]
    """The end that storage shows where a worker claims this state; None when storage does not show
    it, so that the operation stays open.
    """
    titles: Mapping[str, str]
    """Check -> what it looks at, as it stands on the page before there is a verdict."""
    checks: Callable[[Operation], list[Check]]
    """The proof: what storage shows of its effect, now."""

    may_run_unasked: Callable[[Operation], bool] = never
    """Whether a worker may take it again although no person asked for it, but a schedule."""
    is_still_granted: Callable[[Operation], bool] = always
    """Whether its requester still has what it needs beside the role: the rows that it reads."""
    may_name: Callable[[Operation, InstantTime], bool] = any_instant
    """Whether a report may say that this is its instant."""
    is_gone: Callable[[Operation, datetime], bool] = worker_is_gone
    """Whether nobody is at it any more."""
    watch: Callable[[Operation, datetime], None] = left_alone
    """A step for one that somebody is at, every few seconds."""
    settle: Callable[[Operation, datetime], bool] = sent_again
    """A step for one that nobody is at any more: false where another worker is to take it."""
    is_settled_unsent: bool = False
    """Whether its effect may come from elsewhere before a worker took it."""
    cancelling: Cancelling = Cancelling.NEVER
    is_carried_on: Callable[[str], bool] = field(default=lambda _service: False)
    """Of one that is cancelled between steps: whether this service is not, once it began."""
    is_corrected: bool = True
    """Whether its end is looked at again where storage contradicts it later."""
    has_trace: bool = True
    """Whether what it does carries its name on the timeline, which says when to look again."""
    is_done_as_a_whole: bool = False
    """Whether one that succeeded has done all its steps, whatever was reported of them."""
    is_planned: bool = False
    """Whether a plan was looked at first: then its page is a step of that."""
    is_checked_while_open: bool = False
    again: Callable[[Operation, Mapping[str, Any]], Ask[Any]] | None = None
    """What is asked for once more after its end, with some of its parameters changed; None where
    there is another way. Raises InvalidRequest.
    """
    scheduled: Callable[[Table, str, Mapping[str, Any]], Ask[Any]] | None = None
    """What a schedule asks for, of a table, a service and its parameters; None where a person has
    to look each time. Raises InvalidRequest.
    """
    page: str = ""
    """Of the table's pages the one that it belongs to."""
    heading: Callable[[Operation], str] = named_after_its_kind


@cache
def kinds() -> Mapping[str, Kind]:
    """Every kind, by name: of each module of this package its `KIND`."""
    names = sorted(module.name for module in iter_modules(package.__path__))
    modules = [import_module(f"{package.__name__}.{name}") for name in names]
    filled_in: list[Kind] = [module.KIND for module in modules if hasattr(module, "KIND")]
    assert len({kind.name for kind in filled_in}) == len(filled_in), filled_in
    return {kind.name: kind for kind in filled_in}


def kind_named(name: str) -> Kind:
    """The kind of this name. Raises NotAllowedNow for one that another version of the control plane
    has made.
    """
    kind = kinds().get(name)
    if kind is None:
        raise NotAllowedNow("unknown kind of operation", kind=name)
    return kind


def kind_of(operation: Operation) -> Kind:
    """The operation's kind. Raises what `kind_named` raises."""
    return kind_named(operation.kind)
