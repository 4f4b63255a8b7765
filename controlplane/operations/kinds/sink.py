"""Sinks from launch to end: started as an operation, stopped by a request beside the table, started
again with the same options.

A sink that somebody runs from a shell is no operation: it is seen and stopped all the same, because
both go by the files beside the table.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.operations.ask import Ask, Request, Requester, Wanted
from controlplane.operations.brokers import check_brokers
from controlplane.operations.cancels import SPARK_USER
from controlplane.operations.descriptions.sinks import RELAUNCHES_MAX
from controlplane.operations.effect_proofs import SINK_TITLES, sink_checks
from controlplane.operations.kinds.kind import Cancelling, Kind
from controlplane.operations.models import Operation
from controlplane.operations.request_places import check_places
from controlplane.operations.requesting import Given, do_request
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.sink_settling import (
    confirm_sink,
    settle_sink,
    sink_is_gone,
    watch_sink,
)
from controlplane.operations.sink_stops import SINK, newest_operation, own_options
from controlplane.tables.access import Permission
from controlplane.tables.models import Table
from workers.errors import InvalidInput
from workers.jobs import SinkJob
from workers.options.node_options import reject_connection_options
from workers.options.sink_keys import SINK_OPTIONS
from workers.options.write_options import write_options
from workers.sink.config import SinkConfig, sink_config
from workers.spark.settings import checked_settings
from workers.table_services.inline import own_options as options_of_writes


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkAsk(Ask[None]):
    """Run a sink until it is stopped."""

    options: Mapping[str, str]
    application: str
    spark_conf: Mapping[str, str]
    relaunches_max: int
    relaunches: int
    what: str
    request_name = "SinkAsk"
    busy = "this sink has an operation already"

    @property
    def kind(self) -> Kind:
        return KIND

    @property
    def body(self) -> dict[str, Any]:
        return {
            "options": dict(self.options),
            "application": self.application,
            "spark_conf": dict(self.spark_conf),
            "relaunches_max": self.relaunches_max,
            "what": self.what,
        }

    def plan(self) -> None:
        """A sink has none: it writes what comes."""

    def wanted(self, request: Request, plan: None) -> Wanted:
        config = checked_options(self.table, self.options)
        if not 0 <= self.relaunches_max <= RELAUNCHES_MAX:
            raise InvalidRequest("too many relaunches", most=RELAUNCHES_MAX)
        session_id = str(uuid.uuid4())
        return Wanted(
            job=_job(self, request.operation_id, session_id),
            what=self.what,
            columns={
                "session_id": session_id,
                "user_id_spark": SPARK_USER,
                "sink_id": config.sink_id,
            },
            parameters={
                "writer": config.sink_id,
                "relaunches_max": self.relaunches_max,
                "relaunches": self.relaunches,
            },
            details={"sink": config.sink_id, "topic": config.topic},
        )


def do_start_sink(
    table: Table,
    options: Mapping[str, str],
    *,
    by: User,
    reason: str = "",
    application: str = "own",
    spark_conf: Mapping[str, str] | None = None,
    relaunches_max: int = 0,
    relaunches: int = 0,
    what: str = "sink.start",
    idempotency_key: str | None = None,
) -> Operation:
    """Queue a sink that runs until it is stopped.

    Raises what `do_request` raises, InvalidRequest before anything is stored, NotAllowedNow while
    an operation of this sink is open.
    """
    ask = SinkAsk(
        table=table,
        options={key: text for key, text in options.items() if text != ""},
        application=application,
        spark_conf=dict(spark_conf or {}),
        relaunches_max=relaunches_max,
        relaunches=relaunches,
        what=what,
    )
    given = Given(reason=reason, idempotency_key=idempotency_key)
    return do_request(ask, Requester.person(by), given)


def do_relaunch_sink(
    table: Table, sink_id: str, *, by: User, reason: str = "", idempotency_key: str | None = None
) -> Operation:
    """The newest operation of this sink once more, under the options that it had.

    Raises NotAllowedNow where it was never launched here, or still runs.
    """
    before = newest_operation(table, sink_id)
    if before is None:
        raise NotAllowedNow(
            "this node did not launch the sink, so its options are unknown: start it instead",
            sink=sink_id,
        )
    return launch_again(before, by=by, reason=reason, idempotency_key=idempotency_key)


def launch_again(
    before: Operation,
    *,
    by: User,
    reason: str,
    relaunches: int = 0,
    idempotency_key: str | None = None,
) -> Operation:
    """A new operation that launches the same sink. Raises what `do_start_sink` raises."""
    job = before.parameters["job"]
    return do_start_sink(
        before.table,
        job["sink_options"],
        by=by,
        reason=reason,
        application=job["application"],
        spark_conf=job["spark_conf"],
        relaunches_max=int(before.parameters.get("relaunches_max", 0)),
        relaunches=relaunches,
        what="sink.relaunch",
        idempotency_key=idempotency_key,
    )


def checked_options(table: Table, options: Mapping[str, str]) -> SinkConfig:
    """The sink that the options describe. Raises InvalidRequest for what the sink would refuse,
    and for what it may not touch.
    """
    try:
        reject_connection_options(options)
        config = sink_config(own_options(options))
        others = {key: text for key, text in options.items() if key not in SINK_OPTIONS}
        write_options(options_of_writes(others))
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
    check_brokers(config, table.namespace)
    check_places(table, options)
    if table.table_type and table.table_type != "MERGE_ON_READ":
        raise InvalidRequest("a sink requires a merge-on-read table", type=table.table_type)
    return config


def _job(ask: SinkAsk, operation_id: uuid.UUID, session_id: str) -> SinkJob:
    try:
        checked_settings(ask.spark_conf)
        return SinkJob(
            operation_id=str(operation_id),
            table=ask.table.location,
            sink_options=dict(ask.options),
            application=ask.application,
            wanted_at_ms=int(timezone.now().timestamp() * 1000),
            spark_conf=dict(ask.spark_conf),
            session_id=session_id,
            user_id=SPARK_USER,
            run_dir=run_dir(operation_id),
            report_url=settings.SLUICE_REPORT_URL,
        )
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error


KIND = Kind(
    name=SINK,
    job=SinkJob,
    permission=lambda _: Permission.OPERATE,
    confirm=confirm_sink,
    titles=SINK_TITLES,
    checks=sink_checks,
    is_gone=sink_is_gone,
    watch=watch_sink,
    settle=settle_sink,
    cancelling=Cancelling.STOPPED,
    is_corrected=False,
    is_checked_while_open=True,
    page="sinks",
)
