"""The marker server of this node: start it, look at it, drain it, start it again when it died.

Whatever becomes of it, no acknowledged marker is lost: it answers only after a marker is durable.
So supervision may kill and restart it at any time, and writers just try again for a while.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import F, Q
from django.utils import timezone

from controlplane.audit.actions import do_record
from controlplane.errors import NotAllowedNow
from controlplane.events import EVERYWHERE, publish_change
from controlplane.mirror.models import ServerSample
from controlplane.operations.models import MarkerServer
from workers.markers import process
from workers.markers.process import Health
from workers.processes import get_address

log = logging.getLogger(__name__)

_TURN_MARGIN = timedelta(seconds=12)
"""A turn takes so much longer than its time-outs: it also ends processes."""
HUNG_AFTER = timedelta(seconds=6)
"""Alive but silent for so long: it is replaced, which keeps the promise of ten seconds."""


@dataclass(frozen=True, slots=True)
class _Place:
    port: int
    secret: str
    url: str
    is_own: bool
    """Whether this node starts it, or only samples a server that SLUICE_MARKER_URL names."""


def supervise() -> str:
    """One look: sample it when it answers, start it when it does not. The state it is left in."""
    place = _place()
    if place is None:
        return MarkerServer.State.DOWN.value
    with _turn(place) as server:
        if server is None:
            return "busy"
        return (_supervise if place.is_own else _watch)(place, server).value


def _watch(place: _Place, server: MarkerServer) -> MarkerServer.State:
    """Sample a server that another supervisor starts and stops."""
    health = process.probe(place.url, settings.SLUICE_MARKER_PROBE_TIMEOUT_S)
    if health is None:
        _note_sample(None, pid=None)
        return _note_state(server, MarkerServer.State.DOWN)
    started_at = datetime.fromtimestamp(health.since_ms / 1000, UTC)
    was_restarted = server.started_at is not None and server.started_at != started_at
    MarkerServer.objects.filter(pk=server.pk).update(
        started_at=started_at, restarts=F("restarts") + int(was_restarted)
    )
    timeout_s = settings.SLUICE_MARKER_PROBE_TIMEOUT_S
    _note_sample(process.sample(place.url, place.secret, timeout_s), pid=health.pid)
    is_draining = health.status == "draining"
    # Its pid counts on its own host only.
    return _note_state(
        server, MarkerServer.State.DRAINING if is_draining else MarkerServer.State.RUNNING
    )


def _supervise(place: _Place, server: MarkerServer) -> MarkerServer.State:
    if not server.is_wanted:
        return MarkerServer.State(server.state)
    health = process.probe(place.url, settings.SLUICE_MARKER_PROBE_TIMEOUT_S)
    if health is None and _is_hung(place, server):
        log.warning("marker server does not answer and is restarted: pid=%s", server.pid)
        process.stop(server.pid or 0, port=place.port, timeout_s=1.0)
    if health is None:
        was_up = server.pid is not None
        health = _start(place, server)
        if was_up or health is None:  # That it does not run before its first start is no failure.
            _note_sample(None, pid=None)
    if health is None:
        return _note_state(server, MarkerServer.State.DOWN)
    is_draining = health.status == "draining"
    state = MarkerServer.State.DRAINING if is_draining else MarkerServer.State.RUNNING
    _note_state(server, state, pid=health.pid)
    _note_sample(
        process.sample(place.url, place.secret, settings.SLUICE_MARKER_PROBE_TIMEOUT_S),
        pid=health.pid,
    )
    if is_draining:
        # Whoever drained it has gone; a drained server refuses work until it is started anew.
        process.stop(health.pid, port=place.port)
    return state


def do_restart_marker_server(by: User) -> None:
    """Drain, stop, start. Writers wait and try again meanwhile.

    Raises NotAllowedNow when supervision has it in hand, or no secret is configured.
    """
    place = _required_place()
    if not place.is_own:
        raise NotAllowedNow(
            "this node does not run the marker server: restart it on its own node",
            SLUICE_MARKER_URL=place.url,
        )
    with _turn(place) as server:
        if server is None:
            raise NotAllowedNow(
                "another request is managing the marker server: retry in some seconds"
            )
        _stop(place, server)
        MarkerServer.objects.filter(pk=server.pk).update(is_wanted=True)
        health = _start(place, server)
        if health is not None:
            _note_state(server, MarkerServer.State.RUNNING, pid=health.pid)
    do_record(
        who=by.get_username(), what="marker_server.restart", subject=str(place.port), result="done"
    )


def shut_down() -> None:
    """Drain and stop: for the end of the node, after the tasks that would start it again."""
    place = _place()
    server = MarkerServer.objects.filter(port=place.port).first() if place else None
    if place is not None and place.is_own and server is not None:
        _stop(place, server)


def _stop(place: _Place, server: MarkerServer) -> None:
    if not process.drain(place.url, place.secret, settings.SLUICE_MARKER_DRAIN_TIMEOUT_S):
        log.info("marker server did not drain in time: port=%s", place.port)
    health = process.probe(place.url, settings.SLUICE_MARKER_PROBE_TIMEOUT_S)
    pid = health.pid if health else server.pid
    if pid:
        process.stop(pid, port=place.port)
    _note_state(server, MarkerServer.State.DOWN)


def _start(place: _Place, server: MarkerServer) -> Health | None:
    if server.pid:
        process.stop(
            server.pid, port=place.port, timeout_s=1.0
        )  # Also takes the dead child's exit status.
    pid = process.start_server(
        host=settings.SLUICE_MARKER_HOST,
        port=place.port,
        roots=settings.SLUICE_TABLE_ROOTS,
        secret=place.secret,
        log_path=settings.SLUICE_HOME / "log" / "marker-server.log",
        options=batch_options(),
    )
    was_started = server.started_at is not None
    MarkerServer.objects.filter(pk=server.pk).update(
        pid=pid, started_at=timezone.now(), restarts=F("restarts") + int(was_started)
    )
    health = process.await_health(place.url, settings.SLUICE_MARKER_START_TIMEOUT_S)
    log.info(
        "marker server started: port=%s pid=%s answers=%s", place.port, pid, health is not None
    )
    return health


def batch_options() -> list[str]:
    """Return the server's arguments for batches; without an interval it does not wait for one."""
    options = ["--num-threads", str(settings.SLUICE_MARKER_THREADS)]
    if settings.SLUICE_MARKER_INTERVAL_MS is not None:
        options += ["--interval-ms", str(settings.SLUICE_MARKER_INTERVAL_MS)]
    return options


def _is_hung(place: _Place, server: MarkerServer) -> bool:
    if not server.pid or not process.is_server(server.pid, port=place.port):
        return False
    last = ServerSample.objects.filter(up=True).order_by("-at").values_list("at", flat=True).first()
    seen = [at for at in (last, server.started_at) if at is not None]
    return not seen or timezone.now() - max(seen) > HUNG_AFTER


def _note_state(
    server: MarkerServer, state: MarkerServer.State, *, pid: int | None = None
) -> MarkerServer.State:
    if (server.state, server.pid) != (state.value, pid):
        publish_change(EVERYWHERE, "marker_server", state=state.value)
    MarkerServer.objects.filter(pk=server.pk).update(state=state, pid=pid)
    return state


def _note_sample(metrics: Mapping[str, Any] | None, *, pid: int | None) -> None:
    if metrics is None:
        ServerSample.objects.create(at=timezone.now(), up=False, pid=pid)
        return
    latency = metrics.get("latency_ms") or {}
    ServerSample.objects.create(
        at=timezone.now(),
        up=True,
        pid=pid,
        queue_depth=int(metrics.get("queue_depth") or 0),
        batches=int(metrics.get("batches") or 0),
        requests=int(metrics.get("requests_total") or 0),
        markers=int(metrics.get("markers_created") or 0),
        batch_sizes=dict(metrics.get("batch_sizes") or {}),
        p50_ms=latency.get("p50"),
        p95_ms=latency.get("p95"),
    )


@contextmanager
def _turn(place: _Place) -> Iterator[MarkerServer | None]:
    """The server's row for whoever may act on it now; None when another process is at it."""
    server, _ = MarkerServer.objects.get_or_create(port=place.port)
    now = timezone.now()
    mine = now + _turn_length()
    free = Q(running_until__isnull=True) | Q(running_until__lt=now)
    if not MarkerServer.objects.filter(free, pk=server.pk).update(running_until=mine):
        yield None
        return
    try:
        yield MarkerServer.objects.get(pk=server.pk)
    finally:
        MarkerServer.objects.filter(pk=server.pk, running_until=mine).update(running_until=None)


def _turn_length() -> timedelta:
    """After this time another process may take the turn: the one that had it must have died."""
    probes_s = 3 * settings.SLUICE_MARKER_PROBE_TIMEOUT_S
    others_s = settings.SLUICE_MARKER_START_TIMEOUT_S + settings.SLUICE_MARKER_DRAIN_TIMEOUT_S
    return _TURN_MARGIN + timedelta(seconds=probes_s + others_s)


def _place() -> _Place | None:
    if not settings.SLUICE_MARKER_SECRET:
        return None
    secret = settings.SLUICE_MARKER_SECRET
    if not settings.SLUICE_OWN_MARKER_SERVER:
        url = settings.SLUICE_MARKER_URL
        return _Place(urlsplit(url).port or 80, secret, url, is_own=False)
    port = settings.SLUICE_MARKER_PORT
    return _Place(port, secret, get_address(settings.SLUICE_MARKER_HOST, port), is_own=True)


def _required_place() -> _Place:
    place = _place()
    if place is None:
        raise NotAllowedNow("no marker secret is configured, so no marker server runs")
    return place
