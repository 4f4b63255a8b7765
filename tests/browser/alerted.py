"""What health checks of the other tables say, as alerts, and who was sent word of them."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib.auth.models import User

from controlplane.monitoring.actions import do_silence
from controlplane.monitoring.channels.actions import ChannelSpec, do_create_channel
from controlplane.monitoring.health import evaluate_table_health
from controlplane.monitoring.models import Alert, Delivery, Message
from controlplane.tables.models import Table


def alerts_of_all(now: datetime, admin: User) -> None:
    """What their health checks say, as if it had been so for a while; one is silenced, and one was
    resolved.
    """
    evaluate_table_health(budget_s=60)
    Alert.objects.update(fired_at=now - timedelta(minutes=12))
    known = Alert.objects.filter(verdict="warn").select_related("table")[0]
    do_silence(
        table=known.table,
        check=known.check_name,
        hours=4,
        reason="the nightly load is late; it catches up by itself",
        by=admin,
    )
    Alert.objects.create(
        table=Table.objects.get(slug="empty"),
        check_name="cleaning",
        title="Cleaner makes progress",
        verdict="warn",
        sentence="31 commits since the last clean",
        unwell_at=now - timedelta(hours=3),
        fired_at=now - timedelta(hours=3),
        resolved_at=now - timedelta(hours=1),
    )


def channels_of_all(now: datetime, admin: User) -> None:
    """One that was sent word of what fires, and one whose receiver refused it."""
    night = do_create_channel(
        ChannelSpec(
            name="night watch",
            kind="webhook",
            address="https://hooks.example/services/T1/B2",
            severity_min="critical",
            checks=["mirror", "failed-writes"],
        ),
        by=admin,
    )
    page = do_create_channel(
        ChannelSpec(
            name="on call",
            kind="apprise",
            address="pover://" + "u" * 30 + "@" + "a" * 30,
            is_paused=True,
        ),
        by=admin,
    )
    for made, state, codes in ((night, "sent", [503, 200]), (page, "waiting", [429])):
        message = Message.objects.create(
            channel_id=made.channel.id,
            about="fired",
            check_name="mirror",
            state=state,
            opened_at=now - timedelta(minutes=12),
            due_at=now + timedelta(hours=1),
            attempts=len(codes),
        )
        message.alerts.set(Alert.objects.filter(check_name="mirror"))
        for number, code in enumerate(codes, 1):
            is_taken = code == 200
            Delivery.objects.create(
                message=message,
                number=number,
                state="sent" if is_taken else "failed",
                answer_code=code,
                problem="" if is_taken else f"the receiver answered {code}",
                began_at=now - timedelta(minutes=12 - number),
                ended_at=now - timedelta(minutes=12 - number),
            )
