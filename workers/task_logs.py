"""Log lines of Celery: in the common format, with the request and the operation of the current
task.

The request's id is sent with each message that is sent while a request is answered, or for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from celery import signals

from workers.log_lines import bind, current_request_id
from workers.traces import flush_traces

HEADER: Final = "sluice_request_id"


def follow_requests(configure: Callable[[], None]) -> None:
    """Log for one Celery application: `configure` sets logging up, in place of Celery."""

    def set_up(**_given: Any) -> None:
        configure()

    signals.setup_logging.connect(set_up, weak=False)
    signals.before_task_publish.connect(_name_request, weak=False)
    signals.task_prerun.connect(_begin, weak=False)
    signals.task_postrun.connect(_end, weak=False)
    signals.worker_process_shutdown.connect(_flush, weak=False)


def _name_request(headers: dict[str, Any] | None = None, **_given: Any) -> None:
    if headers is not None and not headers.get(HEADER):
        headers[HEADER] = current_request_id.get()


def _begin(task: Any = None, args: Sequence[Any] = (), **_given: Any) -> None:
    job = args[0] if args and isinstance(args[0], Mapping) else {}
    request_id, operation_id = task.request.get(HEADER), job.get("operation_id")
    bind(request_id=_text(request_id), operation_id=_text(operation_id))


def _end(**_given: Any) -> None:
    bind(request_id="", operation_id="")


def _flush(**_given: Any) -> None:
    """Flush traces, because a process of the pool does not end as Python does."""
    flush_traces()


def _text(value: object) -> str:
    """Return a text of a message, which is not trusted."""
    return value[:64] if isinstance(value, str) else ""
