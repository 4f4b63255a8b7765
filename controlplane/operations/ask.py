"""What is asked for, by whom and with which words, from the request to the row. Each kind of
operation has its own `Ask`; whatever is the same for all of them stands here.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from django.contrib.auth.models import User

from controlplane.operations.confirmation import Confirmation
from controlplane.operations.kinds.kind import Job, Kind
from controlplane.operations.models import Operation
from controlplane.tables.models import Table


@dataclass(frozen=True, slots=True)
class Requester:
    """Who asks: a person, or what asks by itself."""

    user: User | None
    name: str
    """For the audit, and for what is written on the table."""
    is_shell: bool = False
    """Then no worker gets it: the shell carries it out in its own process, right after."""

    @classmethod
    def person(cls, user: User) -> Requester:
        return cls(user, user.get_username())


@dataclass(frozen=True, slots=True)
class Origin:
    """The operation that is requested again, and what is changed of it."""

    operation: Operation
    changed: Mapping[str, Any]

    def changes(self) -> dict[str, dict[str, Any]]:
        """By the name of each changed parameter: its value before and after."""
        job = self.operation.parameters["job"]
        before = job.get("parameters", job)
        return {
            name: {"before": before.get(name), "after": self.changed[name]}
            for name in sorted(self.changed)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Who asks for an operation and with which words, once both are checked."""

    by: Requester
    reason: str = ""
    plan_hash: str = ""
    """Of the plan that was shown; empty where none is needed."""
    idempotency_key: str | None = None
    digest: str = ""
    """Of all that was asked for: the same key with another digest is another request."""
    operation_id: uuid.UUID = field(default_factory=uuid.uuid4)
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What an `Ask` puts into its row, its message and the audit, beside its table and kind."""

    job: Job
    what: str
    """For the audit: `operation.write`, `service.clean`."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of the row."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Kept beside the job."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """For the audit."""


class Plan(Protocol):
    """What would be done, as far as every kind is asked about it."""

    @property
    def plan_hash(self) -> str: ...
    @property
    def blockers(self) -> Sequence[str]:
        """Why it cannot run now; empty when it can."""

    @property
    def is_empty(self) -> bool:
        """There is nothing to do."""


P = TypeVar("P", bound=Plan | None)


@dataclass(frozen=True, slots=True)
class Ask(ABC, Generic[P]):
    """What somebody asks for, with its parameters. The role that it needs is its kind's to say."""

    table: Table
    request_name: ClassVar[str]
    """The stable name of this request, hashed into the digests that stored requests have."""
    busy: ClassVar[str]
    """Why the database would not take it."""

    @property
    @abstractmethod
    def kind(self) -> Kind: ...
    @property
    def service(self) -> str:
        """The table service that it runs, if it runs one."""
        return ""

    @property
    def confirmation(self) -> Confirmation:
        return Confirmation.NONE

    @property
    def is_bound_to_plan(self) -> bool:
        """Whether nobody may ask for it without the hash of its plan."""
        return self.confirmation is Confirmation.NAME_AND_REASON

    @property
    @abstractmethod
    def body(self) -> Mapping[str, Any]:
        """All that makes it this request and no other, as JSON."""

    @abstractmethod
    def plan(self) -> P:
        """What would be done now; None for what has no plan. Raises ControlPlaneError."""

    @abstractmethod
    def wanted(self, request: Request, plan: P) -> Wanted:
        """Its row and its job. Raises InvalidRequest for parameters that it cannot have."""
