"""`up`: from nothing to a page that answers. It prints an address and a login; each step is a line
of `log/up.log`. A failure is reported in one line and leaves nothing running.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from controlplane.node.additions import additions
from controlplane.node.doctor import Surroundings, examine, free_bytes
from controlplane.node.first_use import login_line, prepare
from controlplane.node.identity import Identity, read_identity
from controlplane.node.living import end, processes_of, supervisor_pid
from controlplane.node.migrating import HomeTooOld
from controlplane.node.places import Places
from controlplane.node.processes import Process, processes
from controlplane.node.readiness import NotReady, Wait, probes
from controlplane.node.secrets_file import NodeSecrets, read_secrets
from controlplane.node.stop import remove_sockets, stop
from controlplane.node.supervision import SupervisorFailed, settings_text, start_supervisor

READY_DEADLINE_S = 180.0
UP_LOG = "up.log"
Note = Callable[[str], object]
_LEFTOVER_PATIENCE_S = 10.0


class CannotStart(Exception):
    """The node is not up, and nothing of it runs; the text says why."""


def start(places: Places, say: Callable[[str], None], *, shows_login: bool = True) -> bool:
    """Start every process and wait until each is ready; False when they run already. `say` gets
    the first password unless `shows_login` is false.

    Raises CannotStart.
    """
    identity, secrets = read_identity(places.identity), read_secrets(places.secrets)
    assert identity is not None, places
    assert secrets is not None, places
    if supervisor_pid(places) is not None:
        say(f"Sluice is running already: {identity.url}")
        return False
    log = places.log / UP_LOG
    say(f"Starting Sluice; progress is in {log}")
    with log.open("w", encoding="utf-8", buffering=1) as lines:
        _start(places, identity, secrets, lambda line: lines.write(f"{line}\n"))
    say(f"Sluice is up: {identity.url}")
    if shows_login:
        say(f"Log in as {login_line(secrets)}")
    return True


def _start(places: Places, identity: Identity, secrets: NodeSecrets, note: Note) -> None:
    if leftovers := processes_of(places, identity):
        note(f"stopping {len(leftovers)} processes that an earlier run left behind")
        end(leftovers, patience_s=_LEFTOVER_PATIENCE_S)
    note("checking this machine")
    _check(places, identity)
    note("preparing")
    try:
        prepare(places, secrets, note)
    except HomeTooOld as error:
        raise CannotStart(str(error)) from error
    wanted = [*processes(os.environ, places, identity, secrets), *_added_processes(places)]
    places.supervisor_settings.write_text(settings_text(places, identity, wanted))
    _empty_scratch(places)
    note("starting")
    _run(places, identity, note)


def _added_processes(places: Places) -> list[Process]:
    return [process for addition in additions() for process in addition.processes(places)]


def _check(places: Places, identity: Identity) -> None:
    """Raises CannotStart with one line for each check that failed."""
    around = Surroundings(
        environ=os.environ,
        places=places,
        identity=identity,
        is_running=False,
        free_bytes=free_bytes,
    )
    wrong = [finding.line for finding in examine(around) if not finding.is_fine]
    if wrong:
        remove_sockets(identity)
        raise CannotStart("\n".join(wrong))


def _run(places: Places, identity: Identity, note: Note) -> None:
    """Raises CannotStart; also when a person interrupts, everything is stopped again."""
    try:
        supervisor = start_supervisor(places, identity)
        wait = Wait(supervisor=supervisor, places=places, note=note, deadline_s=READY_DEADLINE_S)
        wait.until_ready(probes(identity, supervisor))
    except (NotReady, SupervisorFailed) as error:
        stop(places, lambda line: None)
        raise CannotStart(str(error)) from error
    except KeyboardInterrupt:
        note("interrupted; stopping what was started")
        stop(places, lambda line: None)
        raise


def _empty_scratch(places: Places) -> None:
    """What a killed Spark left, and what the processes of an earlier run counted: nothing of this
    node runs now.
    """
    for folder in (places.spark, places.counts):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
