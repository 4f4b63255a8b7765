"""Sluice for Python programs: `from sluice import create_table, open_table`.

Names are loaded on first use, so that a program without Spark loads no Spark. An import that needs
a package of an extra raises ModuleNotFoundError with the extra's name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .packages import find_packages

if TYPE_CHECKING:
    from workers.concurrency.outcome import (
        CommitOutcome,
        Committed,
        Conflicted,
        RolledBack,
        Unknown,
    )
    from workers.errors import (
        BadRecords,
        BadRows,
        DatabaseFailed,
        EarlyConflict,
        HistoryLost,
        InstantRolledBack,
        InvalidInput,
        KafkaFailed,
        LakehouseError,
        LeaseLost,
        LockTimeout,
        MalformedTable,
        MarkerRefused,
        NotFound,
        OffsetExpired,
        OffsetsMissing,
        PlanChanged,
        PlanEmpty,
        PlanOvertaken,
        RollbackRefused,
        ServiceBusy,
        ServiceRefused,
        SinkFenced,
        SnapshotChanged,
        SnapshotExpired,
        StorageFailed,
        SumOverflow,
        TableChanged,
        TableExists,
        TableNotFound,
        TopicReplaced,
        UnsupportedTable,
        WriteOutcomeUnknown,
    )
    from workers.lakehouse import (
        LakehouseTable,
        create_append_table,
        create_table,
        open_table,
    )
    from workers.merge.mergers import register_merger
    from workers.read.scan import Scan
    from workers.recovery.plan import RollbackPlan
    from workers.recovery.rollback import RollbackOutcome
    from workers.schema.alter import (
        AddColumn,
        DropColumn,
        RelaxColumn,
        RenameColumn,
        RequireColumn,
        WidenColumn,
    )
    from workers.schema.built_in_strategies import evolvability
    from workers.schema.strategies import register_schema_strategy
    from workers.spark.cluster import Cluster
    from workers.spark.datasource import SluiceDataSource
    from workers.spark.engine_archive import ship_engine
    from workers.spark.foreach_batch import check_foreach_batch
    from workers.spark.session import classic_session, connect_session
    from workers.spark.sink import SinkEnded, run_sink
    from workers.sql import run_sql
    from workers.table_services.service import ServiceOutcome
    from workers.timeline.instant import Instant

__version__ = "0.1.0"

__all__ = [
    "AddColumn",
    "BadRecords",
    "BadRows",
    "Cluster",
    "CommitOutcome",
    "Committed",
    "Conflicted",
    "DatabaseFailed",
    "DropColumn",
    "EarlyConflict",
    "HistoryLost",
    "Instant",
    "InstantRolledBack",
    "InvalidInput",
    "KafkaFailed",
    "LakehouseError",
    "LakehouseTable",
    "LeaseLost",
    "LockTimeout",
    "MalformedTable",
    "MarkerRefused",
    "NotFound",
    "OffsetExpired",
    "OffsetsMissing",
    "PlanChanged",
    "PlanEmpty",
    "PlanOvertaken",
    "RelaxColumn",
    "RenameColumn",
    "RequireColumn",
    "RollbackOutcome",
    "RollbackPlan",
    "RollbackRefused",
    "RolledBack",
    "Scan",
    "ServiceBusy",
    "ServiceOutcome",
    "ServiceRefused",
    "SinkEnded",
    "SinkFenced",
    "SluiceDataSource",
    "SnapshotChanged",
    "SnapshotExpired",
    "StorageFailed",
    "SumOverflow",
    "TableChanged",
    "TableExists",
    "TableNotFound",
    "TopicReplaced",
    "Unknown",
    "UnsupportedTable",
    "WidenColumn",
    "WriteOutcomeUnknown",
    "__version__",
    "check_foreach_batch",
    "classic_session",
    "connect_session",
    "create_append_table",
    "create_table",
    "evolvability",
    "open_table",
    "register_merger",
    "register_schema_strategy",
    "run_sink",
    "run_sql",
    "ship_engine",
]

_ERRORS: Final = "workers.errors"
_MODULES: Final = {
    "workers.concurrency.outcome": (
        *("CommitOutcome", "Committed", "Conflicted", "RolledBack", "Unknown"),
    ),
    "workers.lakehouse": (
        *("LakehouseTable", "create_append_table", "create_table", "open_table"),
    ),
    "workers.merge.mergers": ("register_merger",),
    "workers.read.scan": ("Scan",),
    "workers.recovery.plan": ("RollbackPlan",),
    "workers.recovery.rollback": ("RollbackOutcome",),
    "workers.schema.alter": (
        *("AddColumn", "DropColumn", "RelaxColumn", "RenameColumn", "RequireColumn", "WidenColumn"),
    ),
    "workers.schema.built_in_strategies": ("evolvability",),
    "workers.schema.strategies": ("register_schema_strategy",),
    "workers.spark.cluster": ("Cluster",),
    "workers.spark.datasource": ("SluiceDataSource",),
    "workers.spark.engine_archive": ("ship_engine",),
    "workers.spark.foreach_batch": ("check_foreach_batch",),
    "workers.spark.session": ("classic_session", "connect_session"),
    "workers.spark.sink": ("SinkEnded", "run_sink"),
    "workers.sql": ("run_sql",),
    "workers.table_services.service": ("ServiceOutcome",),
    "workers.timeline.instant": ("Instant",),
}
_MODULE_BY_NAME: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Return the public object of this name.

    Raises ImportError if `workers` is not Sluice's own, and ModuleNotFoundError that names the
    extra if a package is missing.
    """
    if name not in __all__:
        raise AttributeError(f"module 'sluice' has no attribute {name!r}")
    find_packages("workers")
    try:
        value = getattr(import_module(_MODULE_BY_NAME.get(name, _ERRORS)), name)
    except ModuleNotFoundError as error:
        sentence = import_module("workers.installation").describe_missing(error)
        if sentence is None:
            raise
        raise ModuleNotFoundError(f"sluice.{name}: {sentence}", name=error.name) from error
    globals()[name] = value
    return value
