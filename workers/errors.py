"""The engine's exception tree: a class only where a caller would act differently, one sentence
each.

A message is a lowercase sentence; the values that it speaks of follow as `key=value`. `code` is
stable and machine-readable; only the control plane maps it to HTTP.
"""

from __future__ import annotations


class LakehouseError(Exception):
    """Anything the engine refuses or fails at."""

    code = "lakehouse_error"

    def __init__(self, message: str, **values: object) -> None:
        self.message = message
        self.values = values
        super().__init__(message)

    def __str__(self) -> str:
        listed = " ".join(f"{name}={value}" for name, value in self.values.items())
        return f"{self.message}: {listed}" if listed else self.message


class NotFound(LakehouseError):
    """The object is not on storage."""

    code = "not_found"


class StorageFailed(LakehouseError):
    """Storage answered with an error and the effect certainly did not happen. Retry later."""

    code = "storage_failed"


class WriteOutcomeUnknown(LakehouseError):
    """A conditional write may or may not have happened. Delete nothing; read back."""

    code = "write_outcome_unknown"


class InvalidInput(LakehouseError):
    """An argument breaks a rule; nothing was changed. Correct it and call again."""

    code = "invalid_input"


class BadRows(InvalidInput):
    """Some rows of a batch break the table's rules. Correct them, or ask for dead letters."""

    positions: tuple[int, ...] = ()
    """All of them that were found, counted from the batch's first row; the message names a few."""


class BadRecords(LakehouseError):
    """A sink read records that cannot be accepted, and is configured to stop at them."""

    code = "bad_records"


class OffsetsMissing(LakehouseError):
    """The start offsets of a sink are unknown. Set hoodie.kafka.start.offsets."""

    code = "offsets_missing"


class TopicReplaced(LakehouseError):
    """The committed offsets are of another topic, which was deleted and created again."""

    code = "topic_replaced"


class SinkFenced(LakehouseError):
    """Another coordinator has taken the sink over: stop."""

    code = "sink_fenced"


class TableExists(InvalidInput):
    """A table already exists at this location."""

    code = "table_exists"


class TableChanged(LakehouseError):
    """The table is not what it was when it was opened."""


class TableNotFound(LakehouseError):
    """No table exists at this location."""

    code = "table_not_found"


class UnsupportedTable(LakehouseError):
    """The table carries a feature that Sluice does not read or must not write."""

    code = "unsupported_table"


class MalformedTable(LakehouseError):
    """A file of the table does not follow the format."""

    code = "malformed_table"


class HistoryLost(MalformedTable):
    """A part of the archived timeline is lost, and the call needs it. Put the files back from a
    copy, or ask only for what came later.
    """


class SumOverflow(LakehouseError):
    """A key's sum is beyond its column's type, and no wrong number is returned. Delete the key."""

    code = "sum_overflow"


class LockTimeout(LakehouseError):
    """The table lock stayed with another process. Retry."""

    code = "lock_timeout"


class LeaseLost(LakehouseError):
    """The table lock passed to another process while it was needed. Nothing was published."""

    code = "lease_lost"


class InstantRolledBack(LakehouseError):
    """Another process decided to roll this instant back: the writer must stop."""

    code = "instant_rolled_back"


class EarlyConflict(LakehouseError):
    """Another writer was found to win the same file groups: stop, this write cannot commit."""

    code = "early_conflict"


class RollbackRefused(LakehouseError):
    """This instant must not be rolled back as asked."""

    code = "rollback_refused"


class PlanChanged(LakehouseError):
    """The table changed since the plan was shown. Check the new plan."""

    code = "plan_changed"


class ServiceRefused(LakehouseError):
    """This table service must not run as asked."""

    code = "service_refused"


class ServiceBusy(LakehouseError):
    """Another process executes this plan right now. Wait, or check its progress."""

    code = "service_busy"


class PlanOvertaken(LakehouseError):
    """The input of the pending plan was removed or changed. Schedule a new one."""

    code = "plan_overtaken"


class PlanEmpty(PlanOvertaken):
    """A crash left the file of a plan and no plan in it (bug A8)."""

    code = "plan_empty"


class SnapshotExpired(LakehouseError):
    """The table does not go back that far: files or instants were cleaned."""

    code = "snapshot_expired"


class SnapshotChanged(LakehouseError):
    """Commits were repeatedly rolled back while a snapshot was being read. Read again."""

    code = "snapshot_changed"


class MarkerRefused(LakehouseError):
    """A marker could not be made durable, so its data file must not be written."""

    code = "marker_refused"


class KafkaFailed(LakehouseError):
    """The broker refused, or did not answer in time. Retry later."""

    code = "kafka_failed"


class DatabaseFailed(LakehouseError):
    """A database of a connection was not reached, or gave up. Retry later."""

    code = "database_failed"


class OffsetExpired(LakehouseError):
    """The topic no longer has the next offset: records are lost to the table."""

    code = "offset_expired"


class StopPointRaised(LakehouseError):
    """A test asked this process to fail here."""

    code = "stop_point"
