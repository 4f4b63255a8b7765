"""Why a statement of somebody is not answered."""

from __future__ import annotations

from controlplane.errors import ControlPlaneError


class SqlRefused(ControlPlaneError):
    """The statement says what nobody may say here. Nothing of it ran."""

    code = "sql_refused"


class SqlTableUnknown(ControlPlaneError):
    """A table that there is not, or that this person does not see. Nothing ran."""

    code = "sql_table_unknown"


class SqlMaskedColumn(ControlPlaneError):
    """A masked column is used for more than to be shown. Nothing ran."""

    code = "sql_masked_column"


class SqlLimitHit(ControlPlaneError):
    """It ran into a limit on memory, time or the answer's size, and was ended."""

    code = "sql_limit"


class SqlFailed(ControlPlaneError):
    """The engine could not compute it, such as a division by zero."""

    code = "sql_failed"


class SqlBusy(ControlPlaneError):
    """As many statements run as may at once."""

    code = "sql_busy"


class SqlCancelled(ControlPlaneError):
    """The user cancelled it while it ran."""

    code = "sql_cancelled"
