"""Checks of the messages that a Celery worker takes out of its queue: only the form that Celery
itself writes, without anything that starts more (threat T8).

Celery's own worker dies of some others, and the queue redelivers them to the next one forever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from celery import Task
from celery.exceptions import InvalidTaskError
from celery.worker.strategy import default

_TEXT: Final = (str, type(None))
_HEADERS: Final[Mapping[str, tuple[type, ...]]] = {
    "id": (str,),
    **dict.fromkeys(("root_id", "parent_id", "group", "shadow", "origin"), _TEXT),
    **dict.fromkeys(("argsrepr", "kwargsrepr", "eta", "expires", "reply_to"), _TEXT),
    "retries": (int, type(None)),
    "group_index": (int, type(None)),
    "ignore_result": (bool, type(None)),
    "stamped_headers": (type(None),),
    "stamps": (dict, type(None)),
}
_ID_CHARS_MAX: Final = 255
_Handler = Callable[..., object]


class QueuedTask(Task[..., None]):
    """A task whose messages are checked before anything is made of them."""

    abstract = True
    Strategy = "workers.task_messages:strategy"


def strategy(task: Task[..., None], app: Any, consumer: Any, **options: Any) -> _Handler:
    """Return Celery's handler for messages in that form; others are logged and dropped."""
    handle = default(task, app, consumer, **options)

    def handler(message: Any, body: object, *more: Any, **named: Any) -> object:
        if body is not None:
            raise InvalidTaskError("message has the form of an older Celery")
        _check_headers(message.headers)
        _check_payload(message.payload)
        return handle(message, body, *more, **named)

    return handler


def _check_headers(headers: Mapping[str, object]) -> None:
    for name, kinds in _HEADERS.items():
        if type(headers.get(name)) not in kinds:
            raise InvalidTaskError(f"message has a strange header: {name}")
    if len(str(headers["id"])) > _ID_CHARS_MAX:
        raise InvalidTaskError("message has a strange header: id")
    limits = headers.get("timelimit") or [None, None]
    if limits != [None, None]:
        raise InvalidTaskError("message sets limits of time")


def _check_payload(payload: object) -> None:
    match payload:
        case [list(), dict(), dict() as embedded] if not any(embedded.values()):
            return
        case _:
            raise InvalidTaskError("message has no arguments, or more than those")
