"""`manage.py sink replay`: dead letters back to their topic, as a plan and then as an operation."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from controlplane.audit.shell import get_shell_user
from controlplane.node.shell.own_process import Say, request_and_carry_out
from controlplane.node.shell.sinks import Place, own_options
from controlplane.operations.kinds.replay import ReplayAsk
from controlplane.operations.replay_plans import OwnSink
from workers.jobs import ReplayJob
from workers.reporting import Reporter
from workers.sink.config import SinkConfig, sink_config
from workers.sink.dead_letter_selection import (
    SelectedDeadLetters,
    parse_selection,
    select_dead_letters,
)
from workers.sink.dead_letters import list_dead_letter_files
from workers.sink.kafka.replay import replay_letters
from workers.sink.replays import DeadLetterId, find_sent_letters, read_replays
from workers.sink.sink_commits import ID_KEY
from workers.storage.source_places import LETTERS_SUFFIX
from workers.table.table import Table
from workers.tasks.replay import carry_out_replay, format_result

LETTERS_SHOWN = 20


def replay(
    place: Place,
    options: Mapping[str, str],
    *,
    letters: Sequence[str],
    cause: str,
    directory: str,
    is_confirmed: bool,
    reason: str,
    say: Say,
) -> None:
    """Show the letters that are chosen, by default all that there are, and produce them again where
    that was confirmed: of a registered table as an operation, like a page's.

    Raises LakehouseError and what `request_and_carry_out` raises.
    """
    config = sink_config(own_options(options))
    configured = directory or config.dead_letter_path
    where = _absolute(configured or f"{place.table.storage.location}{LETTERS_SUFFIX}")
    names = list_dead_letter_files(place.table, sink_key=ID_KEY, sink_id=config.sink_id)
    choice = parse_selection(places=letters, cause=cause)

    def choose(sent: Collection[DeadLetterId]) -> SelectedDeadLetters:
        return select_dead_letters(where, names, choice, sent)

    waiting = choose(find_sent_letters(read_replays(place.table.storage, config.sink_id)).keys())
    _show(waiting, config, where, say)
    if not waiting.letters.num_rows:
        return
    if not is_confirmed:
        say("nothing was sent; --yes sends each dead letter to its topic again, at a new offset")
        return
    if place.row is None:
        token = place.table.ports.ids.token()
        done = replay_letters(
            place.table, config, os.environ, choose, token=token, by=get_shell_user()
        )
        say(format_result(done, config.topic))
        return
    own = OwnSink(own_options(options), where)
    ask = ReplayAsk(
        table=place.row, sink_id=config.sink_id, letters=letters, cause=cause, given=own
    )
    report = request_and_carry_out(ask, reason=reason, plan_hash="", carry_out=_carry_out, say=say)
    say(report.message)


def _carry_out(message: dict[str, Any], table: Table, reporter: Reporter) -> None:
    carry_out_replay(ReplayJob.from_message(message), table, reporter, os.environ)


def _absolute(directory: str) -> str:
    return directory if "://" in directory else str(Path(directory).resolve())


def _show(waiting: SelectedDeadLetters, config: SinkConfig, where: str, say: Say) -> None:
    say(f"{waiting.letters.num_rows} dead letters of {config.sink_id} in {where}")
    if waiting.already:
        say(f"{waiting.already} more were already replayed")
    for letter in waiting.letters.slice(0, LETTERS_SHOWN).to_pylist():
        text = (letter["value"] or b"")[:80].decode("utf-8", errors="replace")
        say(
            f"  {letter['_kafka_partition']}:{letter['_kafka_offset']}"
            f"  {letter['_sluice_error']}  {text!r}"
        )
