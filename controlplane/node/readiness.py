"""When is each process of a node ready? One probe per process: it answers, not merely it runs.

A probe returns None when ready, else what is missing in a few words.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import redis
from celery.utils.nodenames import gethostname
from django.conf import settings
from kombu.exceptions import OperationalError

from controlplane.node.identity import Identity
from controlplane.node.places import Places
from controlplane.node.processes import WORKERS, worker_name
from controlplane.node.supervision import Supervisor, log_file
from workers.markers.process import probe as probe_markers
from workers.processes import LOOPBACK, get_address, reachable_host

Probe = Callable[[], str | None]
_POLL_S = 0.2
_ANSWER_S = 3.0
_LINE_MAX = 300
BEAT_QUIET_S = 60.0
"""Beat works every second; it waits longer while Redis is away."""


class NotReady(Exception):
    """A process did not become ready; the text names it, its log file and the log's last line."""


@dataclass(frozen=True, slots=True)
class Wait:
    supervisor: Supervisor
    places: Places
    note: Callable[[str], object]
    deadline_s: float

    def until_ready(self, probes: Mapping[str, Probe]) -> None:
        """Poll every probe until all have answered. Raises NotReady at the deadline or when one
        gives up.
        """
        began = time.monotonic()
        waiting = dict(probes)
        missing: dict[str, str] = {}
        while waiting:
            for name, probe in list(waiting.items()):
                problem = probe()
                if problem is None:
                    self.note(f"  {name:<8} ready ({time.monotonic() - began:.1f} s)")
                    del waiting[name]
                else:
                    missing[name] = problem
            self._give_up_on_the_dead(waiting)
            if waiting and time.monotonic() - began > self.deadline_s:
                name = next(iter(waiting))
                raise NotReady(
                    f"{name} is not ready after {self.deadline_s:.0f} s ({missing[name]}); "
                    + last_words(log_file(self.places, name))
                )
            if waiting:
                time.sleep(_POLL_S)

    def _give_up_on_the_dead(self, waiting: Mapping[str, Probe]) -> None:
        states = self.supervisor.states()
        for name in waiting:
            if name in states and states[name].has_given_up:
                raise NotReady(f"{name} does not start; {last_words(log_file(self.places, name))}")


def probes(identity: Identity, supervisor: Supervisor) -> dict[str, Probe]:
    """In the order in which they are reported; only of processes that this node runs itself."""
    own: dict[str, Probe] = {}
    if not identity.redis_url:
        own["redis"] = lambda: redis_answers(f"unix://{identity.redis_socket}")
    if not identity.spark_remote:
        own["spark"] = lambda: port_answers(identity.spark_port)
    own["web"] = lambda: page_answers(identity.web_port, identity.web_host)
    own.update({name: partial(worker_answers, queue) for name, (queue, _) in WORKERS.items()})
    own["beat"] = lambda: runs(supervisor, "beat")
    if not identity.marker_url:
        own["markers"] = lambda: port_answers(identity.marker_port, identity.marker_host)
    return own


def redis_answers(url: str) -> str | None:
    """The address may hold a password, so what is missing does not name it."""
    try:
        with redis.Redis.from_url(
            url, socket_timeout=_ANSWER_S, socket_connect_timeout=_ANSWER_S
        ) as client:
            client.ping()
    except redis.RedisError as error:
        return f"Redis does not answer: {type(error).__name__}"
    return None


def port_answers(port: int, host: str = LOOPBACK) -> str | None:
    try:
        with socket.create_connection((reachable_host(host), port), timeout=_ANSWER_S):
            return None
    except OSError:
        return f"port {port} does not answer yet"


def page_answers(port: int, host: str = LOOPBACK) -> str | None:
    """Any page will do, also one that asks for a login: templates, database and static files stand
    behind it.
    """
    connection = HTTPConnection(reachable_host(host), port, timeout=_ANSWER_S)
    try:
        connection.request("GET", "/login/")
        status = connection.getresponse().status
    except (OSError, HTTPException):
        return f"port {port} does not answer yet"
    finally:
        connection.close()
    return None if status < 500 else f"the login page answers {status}"


def worker_answers(queue: str) -> str | None:
    from controlplane.celery import app

    try:
        replies = app.control.ping(timeout=1.0, pattern=f"{queue}@*", matcher="glob")
    except (OSError, OperationalError) as error:  # Redis may load its data for seconds.
        return f"no answer from the queue: {type(error).__name__}"
    return None if replies else "no answer through the queue yet"


def web_works(host: str, port: int) -> str | None:
    """Return None if the web process answers `/healthz`, also where it knows no loopback name."""
    names = [name for name in settings.ALLOWED_HOSTS if not name.startswith((".", "*"))]
    connection = HTTPConnection(reachable_host(host), port, timeout=_ANSWER_S)
    try:
        connection.request("GET", "/healthz", headers={"Host": names[0] if names else host})
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        return f"port {port} does not answer: {type(error).__name__}"
    finally:
        connection.close()
    return None if status == HTTPStatus.OK else f"/healthz answers {status}"


def this_worker_answers(queues: tuple[str, ...]) -> str | None:
    """Return None if this machine's worker of these queues answers through Redis."""
    from controlplane.celery import app

    name = f"{worker_name(queues)}@{gethostname()}"
    try:
        replies = app.control.ping(timeout=_ANSWER_S, destination=[name])
    except (OSError, OperationalError) as error:
        return f"no answer from the queue: {type(error).__name__}"
    return None if replies else f"{name} does not answer through the queue"


def beat_works(places: Places) -> str | None:
    """Return None if beat worked a moment ago."""
    try:
        age_s = time.time() - places.beat_tick.stat().st_mtime
    except FileNotFoundError:
        return "it has not worked yet"
    return None if age_s < BEAT_QUIET_S else f"it last worked {age_s:.0f} s ago"


def server_works(host: str, port: int) -> str | None:
    """Return None if the marker server answers."""
    health = probe_markers(get_address(host, port), _ANSWER_S)
    return None if health is not None else f"port {port} does not answer"


def runs(supervisor: Supervisor, name: str) -> str | None:
    """For what answers nobody: running is what has lived for its first seconds."""
    state = supervisor.states()[name]
    return None if state.is_running else f"it is {state.state.lower()}"


def last_words(path: Path) -> str:
    """The log file's name and its last line that says something."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return f"it wrote no log ({path})"
    spoken = [line.strip() for line in lines[-50:] if line.strip()]
    return f"see {path}, which ends: {spoken[-1][:_LINE_MAX] if spoken else '(empty)'}"
