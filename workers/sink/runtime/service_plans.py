"""Table services of a sink: the coordinator plans them, and the driver executes the plans.

Only the coordinator plans (S1-03), between transactions, so plans and commits never wait long for
each other. The driver executes a plan while participants continue to write.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from workers.errors import LakehouseError
from workers.options.write_options import WriteOptions, write_options
from workers.sink.config import SinkConfig
from workers.sink.context import sink_write_options
from workers.table.table import Table
from workers.table_services.inline import own_options, run_due
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest
from workers.timeline.instant import Action

_PLANS = {Action.COMPACTION: "compaction", Action.CLUSTERING: "clustering"}
_log = logging.getLogger(__name__)


def plan_services(table: Table, config: SinkConfig, options: Mapping[str, str]) -> None:
    """Plan the services that are due. `options` may enable more services and set when they are due.
    Failures are logged, and do not affect the commit before (K5).
    """
    run_due(table, {**_build_schedule_options(config), **options})


def build_write_options(
    config: SinkConfig, location: str, options: Mapping[str, str]
) -> WriteOptions:
    """Build the write options of the sink for the table at `location`. `options` may also have
    options of services.

    Raises InvalidInput, also for an option of a service.
    """
    own = own_options({**_build_schedule_options(config), **options})
    return sink_write_options(config, location, own)


def run_pending_plans(table: Table, config: SinkConfig, options: Mapping[str, str]) -> int:
    """Execute all pending plans, also those of other writers. Return how many were executed."""
    done = 0
    for instant in table.timeline().pending():
        name = _PLANS.get(instant.action)
        if name is None:
            continue
        request = ServiceRequest(by=f"sink-{config.sink_id}")
        own = write_options(own_options(options))
        try:
            done += get_service(name).run(table, request, own).instant is not None
        except LakehouseError as error:
            _log.warning("a plan was not carried out: service=%s error=%s", name, error)
    return done


def _build_schedule_options(config: SinkConfig) -> dict[str, str]:
    scheduled = {
        "hoodie.compact.schedule.inline": config.schedules_compaction,
        "hoodie.clustering.schedule.inline": config.schedules_clustering,
    }
    return {key: "true" for key, is_scheduled in scheduled.items() if is_scheduled}
