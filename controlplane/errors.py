"""What a person or a client can be told: a stable code, one sentence, the values it speaks of.

Only `controlplane.api.errors` maps codes to HTTP.
"""

from __future__ import annotations

from typing import Final

from workers.installation import format_command

DATABASE_RETRY_AFTER_S: Final = 2
"""How soon a request may be sent again that the database did not answer."""


class ControlPlaneError(Exception):
    """A request that was understood and is refused."""

    code = "refused"

    def __init__(self, message: str, **values: object) -> None:
        self.message = message
        self.values = values
        super().__init__(message)

    def __str__(self) -> str:
        listed = " ".join(f"{name}={value}" for name, value in self.values.items())
        return f"{self.message}: {listed}" if listed else self.message


class InvalidRequest(ControlPlaneError):
    """Correct it and send it again."""

    code = "invalid_request"


class PlanVoid(ControlPlaneError):
    """The table changed after the plan was computed. Check the new plan."""

    code = "plan_changed"


class NotAllowedNow(ControlPlaneError):
    """Not possible now: the object is in a state that does not permit it."""

    code = "not_allowed_now"


class StateChanged(ControlPlaneError):
    """The object is no longer in the state that the change was meant for. Read it again."""

    code = "state_changed"


class KeyReused(ControlPlaneError):
    """An idempotency key came with another request before. Take a new key."""

    code = "idempotency_key_reused"


class StorageUnavailable(ControlPlaneError):
    """Table storage did not answer; nothing was changed."""

    code = "storage_unavailable"


class TooLarge(ControlPlaneError):
    """The body is larger than this node accepts."""

    code = "too_large"


class DatabaseUnavailable(ControlPlaneError):
    """The database did not answer, or all connections to it were taken for too long."""

    code = "database_unavailable"

    def __init__(self) -> None:
        super().__init__("the database does not answer; ask again in a moment")


class QueueUnavailable(ControlPlaneError):
    """Redis did not answer. What was stored before that stays, and is sent when it is back."""

    code = "queue_unavailable"

    def __init__(self) -> None:
        super().__init__(
            f"Redis does not answer; try again when `{format_command('status')}` says that it does"
        )
