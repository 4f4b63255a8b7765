"""The base of the generated methods of the client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from .connection import Connection, segment
from .rows import TableRow

T = TypeVar("T")
_LEFT_OUT: Mapping[str, Any] = {"PATCH": [None], "PUT": [None, ""]}
"""By HTTP method: values that mean the node's default, or in a change the stored value."""


class BaseCalls:
    """A part of `Client`."""

    _connection: Connection

    def _ask(
        self, answer: type[T], method: str, address: str, values: dict[str, Any], of_plan: str = ""
    ) -> T:
        """Send the parameters of a method. Those in the address go there, `of_plan` names what the
        plan has, and `new_slug` is the slug in the body.
        """
        key, plan, _ = values.pop("key", None), values.pop("plan", None), values.pop("self")
        places = {name: segment(values.pop(name)) for name in re.findall(r"{(\w+)}", address)}
        body = {name.removeprefix("new_"): _plain(value) for name, value in values.items()}
        if plan is not None:
            body |= {name: plan[name] for name in of_plan.split() if name != "table_name"}
            if "table_name" in of_plan:
                table = self._connection.get(TableRow, f"tables/{places['slug']}/")
                body["table_name"] = table["name"]
        empty = _LEFT_OUT.get(method, [None, "", [], {}])
        sent = {name: value for name, value in body.items() if value not in empty}
        return self._connection.ask(answer, method, address.format(**places), sent, key)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return value if value is None or isinstance(value, str | int) else list(value)
