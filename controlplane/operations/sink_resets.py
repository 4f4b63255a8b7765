"""Where a sink goes on, set by a person: a plan, and then one commit without rows.

It is done while the person waits, by this process: it asks the broker and commits, and takes no
longer than these two. The plan's hash says from where and to where, so that what is asked for
twice, or after the sink has gone on, changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.audit.actions import do_record
from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest, NotAllowedNow, PlanVoid, StorageUnavailable
from controlplane.mirror.storage import engine_table
from controlplane.operations.brokers import check_brokers
from controlplane.operations.confirmation import check_words
from controlplane.operations.descriptions.sinks import TO_CHARS_MAX
from controlplane.operations.named_connections import build_environment
from controlplane.operations.sink_stops import newest_operation, open_operation, own_options
from controlplane.tables.messages import mask_message
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.errors import (
    InvalidInput,
    KafkaFailed,
    LakehouseError,
    LockTimeout,
    PlanChanged,
    StorageFailed,
)
from workers.installation import format_command
from workers.options.sink_keys import SinkMode
from workers.sink.config import SinkConfig, sink_config
from workers.sink.reset import (
    PartitionReset,
    ResetPlan,
    parse_reset_target,
    plan_reset,
    reset_offsets,
)
from workers.table.table import Table as EngineTable

WHAT = "sink.reset"
BROKER_WAIT_S = 5.0
"""A person waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkResetPlan:
    """What a reset would change, now."""

    sink_id: str
    topic: str
    to: str
    """The offsets of this plan, as they are asked for: `earliest` and `latest` move on."""
    is_same_topic: bool
    topic_id: str
    standing_topic_id: str
    """Of the topic that the table's offsets are of."""
    standing_instant: InstantTime
    partitions: list[PartitionReset]
    gone: list[int]
    """Partitions that the topic has not, and are forgotten."""
    read_again: int
    passed_over: int
    is_append: bool
    plan_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkReset:
    sink_id: str
    instant: InstantTime
    """Of the commit that carries the offsets."""


def plan_sink_reset(
    table: Table, sink_id: str, *, to: str, given: SinkConfig | None = None
) -> SinkResetPlan:
    """`to`: earliest, latest, or `{"0": 17}` with the next offset of each partition. Asks the
    broker; changes nothing. The sink is the one that was launched here, unless the shell has
    `given` its options.

    Raises InvalidRequest, NotAllowedNow for a sink that runs or was not launched here,
    StorageUnavailable where table or broker do not answer.
    """
    config = given or _config(table, sink_id)
    _, plan = _planned(table, config, to)
    return reset_shown(config, plan)


def do_reset_sink(
    table: Table,
    sink_id: str,
    *,
    to: str,
    plan_hash: str,
    typed_name: str,
    reason: str,
    by: str,
    idempotency_key: str | None = None,
    given: SinkConfig | None = None,
) -> SinkReset:
    """Carry the plan out, which was made with the same `given`. The same key by the same person has
    one effect.

    Raises what `plan_sink_reset` raises, PlanVoid when the sink or the topic has moved on since.
    """
    check_words(table, reason, typed_name)
    if known := _known(table, sink_id, by, idempotency_key, plan_hash):
        return known
    config = given or _config(table, sink_id)
    opened, plan = _planned(table, config, to)
    if _hash_of(config, plan) != plan_hash:
        raise PlanVoid(
            "the offsets of the sink or its topic changed since the plan: check the new plan"
        )
    try:
        instant = _carry_out(
            opened,
            config,
            plan,
            row=table,
            by=by,
            reason=reason.strip(),
            plan_hash=plan_hash,
            idempotency_key=idempotency_key,
        )
    except PlanChanged as error:
        raise PlanVoid(error.message) from error
    except (LockTimeout, InvalidInput) as error:
        raise NotAllowedNow(error.message, **error.values) from error
    except LakehouseError as error:
        raise StorageUnavailable(
            f"it is unknown whether the sink was reset; check its plan again: {error.message}"
        ) from error
    return SinkReset(sink_id=config.sink_id, instant=instant)


def plan_from_broker(
    table: EngineTable, config: SinkConfig, environment: Mapping[str, str], to: str
) -> ResetPlan:
    """What the reset would change, as the broker stands now. Raises LakehouseError."""
    from workers.sink.kafka.client_config import connection_settings
    from workers.sink.kafka.topics import Topics

    settings = connection_settings(config, environment)
    topics = Topics(settings, timeout_s=BROKER_WAIT_S, clock=table.ports.clock)
    return plan_reset(table, config, topics.facts(config.topic), parse_reset_target(to))


def _carry_out(
    table: EngineTable,
    config: SinkConfig,
    plan: ResetPlan,
    *,
    row: Table,
    by: str,
    reason: str,
    plan_hash: str,
    idempotency_key: str | None,
) -> InstantTime:
    """Commit the plan; in the audit before, and how it ended. Raises LakehouseError."""
    offsets = {str(partition): offset for partition, offset in plan.offsets.items()}
    details = {
        "sink": config.sink_id,
        "topic": config.topic,
        "offsets": offsets,
        "read_again": plan.read_again,
        "passed_over": plan.passed_over,
        "key": idempotency_key or "",
    }

    def note(result: str, **more: str) -> None:
        do_record(
            who=by,
            what=WHAT,
            subject=row.slug,
            result=result,
            reason=reason,
            plan_hash=plan_hash,
            details={**details, **more},
        )

    note("requested")
    try:
        instant = reset_offsets(table, config, plan, by=by)
    except LakehouseError as error:
        note("failed", error=mask_message(str(error))[:500])
        raise
    note("succeeded", instant=instant)
    return instant


def _planned(table: Table, config: SinkConfig, to: str) -> tuple[EngineTable, ResetPlan]:
    if open_operation(table, config.sink_id) is not None:
        raise NotAllowedNow("the sink is running or starting: stop it first", sink=config.sink_id)
    if not to.strip() or len(to) > TO_CHARS_MAX:
        raise InvalidRequest(
            'the target must be earliest, latest or offsets such as {"0": 17, "1": 4}'
        )
    try:
        environment = {**os.environ, **build_environment(table, config)}
        opened = engine_table(table)
        return opened, plan_from_broker(opened, config, environment, to.strip())
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
    except (StorageFailed, KafkaFailed) as error:
        raise StorageUnavailable(error.message) from error
    except LakehouseError as error:
        raise NotAllowedNow(error.message, **error.values) from error


def _config(table: Table, sink_id: str) -> SinkConfig:
    before = newest_operation(table, sink_id)
    if before is None:
        raise NotAllowedNow(
            "this node did not launch the sink, so its broker is unknown: pass the "
            f"options to `{format_command('sink reset')}`",
            sink=sink_id,
        )
    config = sink_config(own_options(before.parameters["job"]["sink_options"]))
    check_brokers(config, table.namespace)
    return config


def _known(
    table: Table, sink_id: str, by: str, idempotency_key: str | None, plan_hash: str
) -> SinkReset | None:
    """What the same person did under this key. Raises InvalidRequest when that was another."""
    if not idempotency_key:
        return None
    done = AuditEvent.objects.filter(
        who=by, what=WHAT, result="succeeded", details__key=idempotency_key
    ).first()
    if done is None:
        return None
    same = (done.object, done.details["sink"], done.plan_hash) == (table.slug, sink_id, plan_hash)
    if not same:
        raise InvalidRequest("the idempotency key was used for another request: send a new key")
    return SinkReset(sink_id=sink_id, instant=done.details["instant"])


def reset_shown(config: SinkConfig, plan: ResetPlan) -> SinkResetPlan:
    """The plan as plain values, with the hash that confirms it."""
    return SinkResetPlan(
        sink_id=config.sink_id,
        topic=config.topic,
        to=json.dumps({str(partition): offset for partition, offset in plan.offsets.items()}),
        is_same_topic=plan.is_same_topic,
        topic_id=plan.topic_id,
        standing_topic_id=plan.last_commit.topic_id,
        standing_instant=plan.last_commit.instant,
        partitions=list(plan.partitions),
        gone=list(plan.missing_partitions),
        read_again=plan.read_again,
        passed_over=plan.passed_over,
        is_append=config.mode is SinkMode.APPEND,
        plan_hash=_hash_of(config, plan),
    )


def _hash_of(config: SinkConfig, plan: ResetPlan) -> str:
    """Over from where and to where; records that come to the topic meanwhile change nothing."""
    hashed = {
        "sink": config.sink_id,
        "from": [plan.last_commit.instant, plan.last_commit.epoch, plan.last_commit.topic_id],
        "stands": sorted(plan.last_commit.offsets.items()),
        "to": [plan.cluster_id, plan.topic_id, sorted(plan.offsets.items())],
    }
    return hashlib.sha256(json.dumps(hashed).encode()).hexdigest()
