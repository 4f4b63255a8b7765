"""Table services that run automatically after a write's commit (`hoodie.compact.inline` and so on),
in the order of the table below: a service may remove what the one before it left.

A write that committed stays committed: an error of a service is logged, and the next write tries
again. Wrong settings are rejected before the write begins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workers.concurrency.outcome import CommitOutcome, Committed
from workers.errors import LakehouseError
from workers.options.option import OptionSet
from workers.options.option_values import boolean
from workers.options.service_keys import (
    ARCHIVE_KEY,
    ARCHIVE_PARAMETERS,
    CLEAN_KEY,
    CLEAN_PARAMETERS,
    CLUSTER_KEY,
    CLUSTER_PLAN_KEY,
    CLUSTERING_COMMITS_KEY,
    CLUSTERING_PARAMETERS,
    COMPACT_KEY,
    COMPACT_PLAN_KEY,
    COMPACTION_PARAMETERS,
    INSTANT,
    MAX_DELTA_COMMITS_KEY,
    SCHEDULE_ONLY,
)
from workers.options.write_options import WriteOptions, write_options
from workers.table.table import Table
from workers.table_services import archive_policy, clean_policy
from workers.table_services.clustering import settings as clustering
from workers.table_services.compaction import settings as compaction
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Inline:
    """One service, and its options of a write."""

    name: str
    run_key: str
    schedule_key: str | None
    """Only make the plan; another process carries it out. None where a plan is not left
    to others.
    """
    parameters: OptionSet
    due: Mapping[str, str]
    """Defaults that differ from those of a person who asks."""
    check: Callable[[Mapping[str, str]], object]
    """Raises InvalidInput."""
    only_merge_on_read: bool = False

    @property
    def keys(self) -> set[str]:
        own = {self.run_key, *self.parameters} - {SCHEDULE_ONLY, INSTANT}
        return own if self.schedule_key is None else {*own, self.schedule_key}


_INLINE = (
    _Inline(
        "compaction",
        COMPACT_KEY,
        COMPACT_PLAN_KEY,
        COMPACTION_PARAMETERS,
        {MAX_DELTA_COMMITS_KEY: "5"},
        compaction.parse_compaction_settings,
        only_merge_on_read=True,
    ),
    _Inline(
        "clustering",
        CLUSTER_KEY,
        CLUSTER_PLAN_KEY,
        CLUSTERING_PARAMETERS,
        {CLUSTERING_COMMITS_KEY: "4"},
        clustering.parse_clustering_settings,
    ),
    _Inline(
        "clean",
        CLEAN_KEY,
        None,
        CLEAN_PARAMETERS,
        {},
        clean_policy.parse_clean_settings,
    ),
    _Inline(
        "archive",
        ARCHIVE_KEY,
        None,
        ARCHIVE_PARAMETERS,
        {},
        archive_policy.parse_archive_settings,
    ),
)


def write_with_services(
    table: Table,
    options: Mapping[str, str],
    write: Callable[[Mapping[str, str]], CommitOutcome],
) -> CommitOutcome:
    """Call `write` with the options that are the write's own, then run what is due.

    Raises InvalidInput for a service's setting, and whatever `write` raises.
    """
    own = own_options(options)
    outcome = write(own)
    if isinstance(outcome, Committed):
        run_due(table, options)
    return outcome


def run_due(table: Table, options: Mapping[str, str]) -> None:
    """Run, or plan, what these options ask for after a commit. What goes wrong with a service is
    logged. Raises InvalidInput for a service's setting.
    """
    own = write_options(own_options(options), table.config.get_mode("service"))
    due_services = [
        (service, parameters)
        for service in _INLINE
        if (parameters := _possible_parameters(table, service, options))
    ]
    for inline, parameters in due_services:
        _run(table, inline.name, parameters, own)


def own_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are the write's, without those of services. Raises InvalidInput for a
    service's setting.
    """
    for inline in _INLINE:
        _parameters(inline, options)
    service_keys = {key for service in _INLINE for key in service.keys}
    return {key: value for key, value in options.items() if key not in service_keys}


def _possible_parameters(
    table: Table, inline: _Inline, options: Mapping[str, str]
) -> dict[str, str] | None:
    """The service's parameters; None when it is not to run. Raises InvalidInput."""
    parameters = _parameters(inline, options)
    is_possible = table.config.is_merge_on_read or not inline.only_merge_on_read
    return parameters if is_possible else None


def _parameters(inline: _Inline, options: Mapping[str, str]) -> dict[str, str] | None:
    """Return the parameters of the service; None when the options neither run nor schedule it.
    Raises InvalidInput.
    """
    runs = _is_set(options, inline.run_key)
    only_schedules = inline.schedule_key is not None and _is_set(options, inline.schedule_key)
    service_options = {
        key: options[key] for key in inline.keys & set(inline.parameters) if key in options
    }
    parameters = {**inline.due, **service_options}
    if inline.schedule_key is not None:
        parameters[SCHEDULE_ONLY] = "false" if runs else "true"
    inline.check(parameters)
    return parameters if runs or only_schedules else None


def _is_set(options: Mapping[str, str], key: str) -> bool:
    return boolean({key: "false", **options}, key)


def _run(table: Table, name: str, parameters: dict[str, str], options: WriteOptions) -> None:
    request = ServiceRequest(options.writer or "inline", "inline", parameters)
    try:
        outcome = get_service(name).run(table, request, options)
    except LakehouseError as error:
        _log.warning("inline service did not run: service=%s error=%s", name, error)
        return
    if outcome.instant is not None:
        done = "; ".join([outcome.summary, *outcome.warnings])
        _log.info("inline service ran: service=%s outcome=%s", name, done)
