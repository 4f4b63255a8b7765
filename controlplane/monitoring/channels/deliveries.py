"""Delivery of messages, in attempts.

An attempt has its row before anything is sent, and its number is unique. A process claims a message
for `HOLD`; if it dies, another process makes a further attempt after that time. All attempts of a
message have the same id, so that a receiver can detect a message that was sent twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.utils import timezone

from controlplane.batches import delete_in_batches
from controlplane.encryption import SealBroken
from controlplane.errors import InvalidRequest
from controlplane.instruments import count_delivery
from controlplane.monitoring.channels.notifications import DEAD, SENDING, SENT, WAITING
from controlplane.monitoring.channels.senders import DeliveryRejected, send
from controlplane.monitoring.models import Delivery, Message
from controlplane.outgoing.sending import SendFailed

log = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 8
ATTEMPT_MAX_S: Final = 45
"""Celery ends the process of an attempt that lasts longer."""
HOLD: Final = timedelta(seconds=ATTEMPT_MAX_S + 15)
_FIRST_WAIT_S: Final = 10
_FACTOR: Final = 3
_WAIT_MAX_S: Final = 2 * 3600
DUE_AT_ONCE: Final = 200
FAILED: Final = "failed"
LOST: Final = "lost"
"""The process of the attempt died or was ended: the result is unknown."""
KEPT_FOR: Final = timedelta(days=30)


def get_backoff_s(attempts: int) -> int:
    """Return the wait before the next attempt: 10 s, then three times longer each, at most 2 h."""
    factor: int = _FACTOR ** (attempts - 1)
    return min(_FIRST_WAIT_S * factor, _WAIT_MAX_S)


def list_due_messages(now: datetime) -> list[int]:
    """List the keys of due messages, oldest first, those with expired claims included."""
    for message in Message.objects.filter(state=SENDING, due_at__lte=now)[:DUE_AT_ONCE]:
        _release_expired(message.pk, now)
    due = Message.objects.filter(state=WAITING, due_at__lte=now).order_by("due_at", "pk")
    return list(due.values_list("pk", flat=True)[:DUE_AT_ONCE])


def do_deliver(
    message_id: int, *, sender: Callable[[Message], int | None] = send, now: datetime | None = None
) -> bool:
    """Make an attempt if the message is due and unclaimed; return whether there was one."""
    now = now or timezone.now()
    delivery = _claim(message_id, now)
    if delivery is None:
        return False
    message = Message.objects.select_related("channel").get(pk=message_id)
    code: int | None = None
    problem, is_final = "", False
    try:
        code = sender(message)
    except DeliveryRejected as error:
        code, problem = error.status, str(error)
    except SendFailed as error:
        problem = str(error)
    except (InvalidRequest, SealBroken) as error:  # Further attempts would fail too.
        problem, is_final = str(error), True
    _end(delivery, code, problem, is_final=is_final)
    return True


def delete_old_messages(*, now: datetime) -> None:
    """Delete finished messages older than `KEPT_FOR`, with their deliveries."""
    ended = Message.objects.filter(state__in=(SENT, DEAD), opened_at__lt=now - KEPT_FOR)
    delete_in_batches(ended)


def _claim(message_id: int, now: datetime) -> Delivery | None:
    with transaction.atomic():
        claimed = Message.objects.filter(pk=message_id, state=WAITING, due_at__lte=now).update(
            state=SENDING, due_at=now + HOLD
        )
        if not claimed:
            return None
        message = Message.objects.select_for_update().get(pk=message_id)
        message.attempts += 1
        message.save(update_fields=["attempts"])
        return Delivery.objects.create(
            message=message, number=message.attempts, state=SENDING, began_at=now
        )


def _release_expired(message_id: int, now: datetime) -> None:
    with transaction.atomic():
        message = (
            Message.objects.select_for_update()
            .filter(pk=message_id, state=SENDING, due_at__lte=now)
            .first()
        )
        if message is None:
            return
        _close(message, LOST, None, "the process that sent it ended", now, is_final=False)


def _end(delivery: Delivery, code: int | None, problem: str, *, is_final: bool) -> None:
    now = timezone.now()
    with transaction.atomic():
        message = (
            Message.objects.select_for_update()
            .select_related("channel")
            .get(pk=delivery.message_id)
        )
        if message.state != SENDING or message.attempts != delivery.number:
            log.warning("a delivery ended after its time limit: message=%s", message.public_id)
            return
        _close(message, FAILED if problem else SENT, code, problem, now, is_final=is_final)


def _close(
    message: Message, state: str, code: int | None, problem: str, now: datetime, *, is_final: bool
) -> None:
    """Store the result of the running attempt; schedule another attempt or finish the message."""
    is_over = is_final or message.attempts >= ATTEMPTS_MAX
    next_at = None
    if state == SENT:
        message.state = SENT
    elif is_over:
        message.state = DEAD
    else:
        next_at = now + timedelta(seconds=get_backoff_s(message.attempts))
        message.state, message.due_at = WAITING, next_at
    message.save(update_fields=["state", "due_at"])
    Delivery.objects.filter(message=message, number=message.attempts).update(
        state=state, answer_code=code, problem=problem[:300], ended_at=now, next_at=next_at
    )
    count_delivery(message.channel.kind, DEAD if message.state == DEAD else state)
    if message.state == DEAD:
        log.error(
            "message to a channel dropped: channel=%s attempts=%s problem=%s",
            *(message.channel.name, message.attempts, problem),
        )
