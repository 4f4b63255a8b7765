"""The scheduler of beat: Celery's own, which notes when it last worked, for `ping beat`."""

from __future__ import annotations

from typing import Any

from celery.beat import PersistentScheduler
from django.conf import settings

from controlplane.node.places import Places


class NotedScheduler(PersistentScheduler):
    """Celery's scheduler with a file whose time is that of its last tick."""

    def tick(self, *args: Any, **options: Any) -> float:
        """Send what is due, note that beat works, and return the seconds until the next tick."""
        wait_s: float = super().tick(*args, **options)
        Places(settings.SLUICE_HOME).beat_tick.touch()
        return wait_s
