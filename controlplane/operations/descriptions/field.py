"""A field of a request, and a request as the list of its fields. Both are plain data. Other modules
make serializers, forms, arguments and methods of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import Enum
from typing import Any, Final

from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.tables.access import Permission


class FieldType(Enum):
    """The value names the type in the manual."""

    TEXT = "text"
    LINES = "text of several lines"
    NUMBER = "whole number"
    FLAG = "true or false"
    MOMENT = "time in UTC"
    INSTANT = "instant time"
    LIST = "list of texts"
    NAMES = "list of names"
    """In forms and commands one text with commas between the names."""
    ROWS = "list of JSON objects"
    ID = "UUID"
    OPTIONS = "texts by key"
    OBJECT = "JSON object"


LEFT_OUT: Final = object()
"""The default of a field that a request is stored without."""


TYPED: Final = {
    FieldType.LIST: " One per line.",
    FieldType.NAMES: " Separated by commas.",
    FieldType.OBJECT: " JSON.",
}
"""Of types that are one text in forms and commands: how it is typed."""


@dataclass(frozen=True, slots=True)
class Choice:
    value: str
    label: str = ""
    is_planned: bool = False
    """Whether this choice takes data away, so that a plan comes first."""


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a request."""

    name: str
    """In the body of the API and in the client."""
    label: str
    """A noun, for the form."""
    help: str = ""
    """One sentence for the form, the API, the command and the manual."""
    _: KW_ONLY
    type: FieldType = FieldType.TEXT
    is_needed: bool = False
    default: Any = ""
    """What it means to leave it out."""
    choices: Sequence[Choice] = ()
    chars_max: int | None = None
    """For a list or options: the longest text of one item. For rows: the longest text in a form."""
    least: int | None = None
    most: int | None = None
    """Bounds of a number, or how many items a list has."""
    may_be_blank: bool = False
    """Whether the API takes an empty text, or empty items."""
    refusal: str = ""
    """What the form answers where it is needed and empty."""
    parts: Sequence[Field] = ()
    """Fields of their own in forms and commands, of what is one object in the API."""
    item: Description | None = None
    """The fields of each object of a list."""
    of: Sequence[str] = ()
    """The kinds of sources that have this part; all when empty."""
    key: str = ""
    """A part's key in the object, where that is not its name."""
    group: str = ""
    """The heading that it has in the form."""
    in_form: str | None = None
    """Its name in the form, where that is another one; empty where the form does not have it."""
    argument: str | None = None
    """Its argument of `manage.py`, where it is not made of its name; empty where there is none."""
    is_in_body: bool = True
    """Whether the API has it; a form may ask for one value by several fields."""
    is_first: bool = False
    """Whether the client's method takes it without its name."""
    is_of_plan: bool = False
    """Whether the client takes it from the plan, or from the table that this is of."""

    @property
    def form_name(self) -> str:
        return self.name if self.in_form is None else self.in_form

    @property
    def flag(self) -> str:
        """The argument, such as `--record-key`; without dashes where its place decides."""
        if self.argument is not None:
            return self.argument
        # `--set` takes options of the engine.
        return "" if "." in self.name else f"--{self.name.replace('_', '-')}"

    @property
    def body_key(self) -> str:
        return self.key or self.name

    @property
    def values(self) -> list[str]:
        """Return the values of the choices."""
        return [choice.value for choice in self.choices]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Description:
    """One request: what it does, who may ask for it, and its fields."""

    name: str
    """The kind of request, with the act after a dot where it has several."""
    purpose: str
    """The docstring of the client's method, and the paragraph of the manual."""
    address: str = ""
    """Below `/api/v1/`, such as `tables/{slug}/sinks/{sink_id}/stop/`; empty for items of lists."""
    method: str = "POST"
    body: str
    """What the OpenAPI document calls its body."""
    call: str = ""
    """The client's method."""
    answer: str = ""
    """The row that it answers with, by its name in the OpenAPI document."""
    permission: Permission
    command: str = ""
    """Behind `manage.py`; empty where the shell does not ask for it."""
    fields: Sequence[Field] = ()
    plan: str = ""
    """The row of the plan that confirms it; empty where none is needed."""
    takes_key: bool = True
    """Whether an idempotency key makes requests that are sent twice one."""

    def __getitem__(self, name: str) -> Field:
        """Return the field or the part of this name."""
        return next(field for field in self.all_fields() if field.name == name)

    def all_fields(self) -> Iterator[Field]:
        """Yield the fields, each behind its parts."""
        for field in self.fields:
            yield from field.parts
            yield field

    @property
    def names(self) -> list[str]:
        """The names of the body."""
        return [field.name for field in self.fields if field.is_in_body]


REASON: Final = Field(
    "reason",
    "Reason",
    "Stored in the audit log with your name.",
    chars_max=REASON_CHARS_MAX,
    refusal="Enter a reason (stored in the audit log).",
)
NEEDED_REASON: Final = replace(REASON, is_needed=True)
PLAN_HASH: Final = Field(
    "plan_hash",
    "Plan",
    "The hash of the plan that was shown. Needed only where data is deleted.",
    chars_max=64,
    is_of_plan=True,
)
TABLE_NAME: Final = Field(
    "table_name",
    "Table name",
    "The table's name, typed.",
    chars_max=200,
    is_of_plan=True,
    in_form="typed_name",
    argument="",  # The command names the table already.
    refusal="Enter the table name.",
)
CONFIRMED: Final = (
    replace(PLAN_HASH, is_needed=True, help="The hash of the plan that was shown."),
    NEEDED_REASON,
    replace(TABLE_NAME, is_needed=True),
)
"""What confirms a plan that takes data away."""
