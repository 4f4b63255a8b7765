"""Table services of a sink: planned by its coordinator between transactions, carried out beside it.

The coordinator alone plans (S1-03), so that plans and the sink's commits never wait for each other
for long; what a plan asks for is done by the driver, while participants write on.
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
from workers.table_services.registry import service
from workers.table_services.service import ServiceRequest
from workers.timeline.instant import Action

_PLANS = {Action.COMPACTION: "compaction", Action.CLUSTERING: "clustering"}
_log = logging.getLogger(__name__)


def plan_services(table: Table, config: SinkConfig, options: Mapping[str, str]) -> None:
    """Plan what is due by now; `options` may ask for more, and say when it is due. Whatever fails
    is logged: the commit before it stands (K5).
    """
    run_due(table, {**_scheduling(config), **options})


def own_write_options(
    config: SinkConfig, location: str, options: Mapping[str, str]
) -> WriteOptions:
    """How the sink writes to the table at `location`, by options that may ask for services as well.

    Raises InvalidInput, for a setting of a service too.
    """
    own = own_options({**_scheduling(config), **options})
    return sink_write_options(config, location, own)


def carry_out_plans(table: Table, config: SinkConfig, options: Mapping[str, str]) -> int:
    """Carry out the pending plans, whoever made them; returns how many were carried out."""
    done = 0
    for instant in table.timeline().pending():
        name = _PLANS.get(instant.action)
        if name is None:
            continue
        request = ServiceRequest(by=f"sink-{config.sink_id}")
        own = write_options(own_options(options))
        try:
            done += service(name).run(table, request, own).instant is not None
        except LakehouseError as error:
            _log.warning("a plan was not carried out: service=%s error=%s", name, error)
    return done


def _scheduling(config: SinkConfig) -> dict[str, str]:
    scheduled = {
        "hoodie.compact.schedule.inline": config.schedules_compaction,
        "hoodie.clustering.schedule.inline": config.schedules_clustering,
    }
    return {key: "true" for key, is_scheduled in scheduled.items() if is_scheduled}
