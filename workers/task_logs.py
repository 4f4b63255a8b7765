"""Log lines of Celery: written as everywhere else, and with the request and the operation of the
task at hand.

The request's id goes with each message that is sent while one is answered, or in the name of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from celery import signals

from workers.log_lines import bind, current_request_id
from workers.traces import flush_traces

HEADER: Final = "sluice_request_id"


def follow_requests(configure: Callable[[], None]) -> None:
    """For one Celery application: `configure` sets logging up, in place of Celery."""

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
    """A process of the pool does not end as Python does."""
    flush_traces()


def _text(given: object) -> str:
    """A message is somebody else's word."""
    return given[:64] if isinstance(given, str) else ""
