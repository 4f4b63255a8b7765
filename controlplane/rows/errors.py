"""Why rows are not shown."""

from __future__ import annotations

from controlplane.errors import ControlPlaneError


class RowsRefused(ControlPlaneError):
    """What is asked does not fit the table; `values.field` says which part of the question."""

    code = "rows_refused"

    @property
    def field(self) -> str:
        """`where`, `columns`, `order_by`, `as_of`, `key`, `instant`, `earlier` or `later`."""
        return str(self.values["field"])


class RowsGone(ControlPlaneError):
    """The table does not go back that far: files of that moment were cleaned away."""

    code = "rows_gone"
