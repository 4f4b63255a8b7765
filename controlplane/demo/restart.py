"""The demo from its beginning, asked for on a page: what takes minutes is done by a worker."""

from __future__ import annotations

from typing import Final

from django.contrib.auth.models import User
from django.db import transaction
from kombu.exceptions import OperationalError

from controlplane.audit.actions import do_record
from controlplane.celery import app
from controlplane.demo.story import do_begin_story
from controlplane.demo.streams import SLUG
from controlplane.errors import QueueUnavailable

RESTART_TASK: Final = "controlplane.demo.restart"


def do_restart_demo(by: User, *, deletes: bool, reason: str = "") -> None:
    """Take all ticks away, and start what has ended. With `deletes` all tables of the demo go
    first, with everything that anybody wrote into them.

    Raises QueueUnavailable.
    """
    with transaction.atomic():
        do_begin_story(by)
        do_record(
            who=by.get_username(),
            what="demo.reset" if deletes else "demo.restart",
            subject=SLUG,
            result="requested",
            reason=reason,
        )
        transaction.on_commit(lambda: _send(by.pk, deletes))


def _send(user_id: int, deletes: bool) -> None:
    try:
        app.send_task(RESTART_TASK, args=[user_id], kwargs={"deletes": deletes}, retry=False)
    except OperationalError as error:
        raise QueueUnavailable from error
