"""Compare the fields of each request in the API, form, command, client and manual."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from django import forms
from django.core.management import load_command_class

from controlplane.api.client_calls import FILE, client_calls, find_places, parameter_names
from controlplane.api.request_bodies import build_body
from controlplane.operations.descriptions.access import GRANT_ROWS
from controlplane.operations.descriptions.catalogue import DESCRIPTIONS, requests_page
from controlplane.operations.descriptions.field import Description, Field
from controlplane.operations.descriptions.schedules import CREATE_SCHEDULE
from controlplane.operations.descriptions.services import SERVICES
from controlplane.operations.descriptions.write import SOURCE, WRITE, part_names
from controlplane.operations.kinds.kind import kinds
from controlplane.tables.models import ROW_RIGHTS
from tests.controlplane.api.promises import document
from web.forms import RollbackForm, ServiceForm, ServiceSettingForm
from web.pages.access import GrantForm, RowGrantForm
from web.pages.streams import StreamForm
from web.schedule_forms import ScheduleForm
from web.sink_forms import SinkForm
from web.table_forms import (
    CreateForm,
    MaskForm,
    RegisterForm,
    SettingsForm,
    UnregisterForm,
)
from web.write_forms import SOURCES, WriteForm
from workers.public.sluice_client import Client
from workers.sink.bounded_read import FIELDS, OFFSETS
from workers.table_services import registry

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "requests.md"
FORMS: Final[Mapping[str, Callable[[], list[forms.Form]]]] = {
    "grant": lambda: [GrantForm()],
    "grant.rows": lambda: [RowGrantForm()],
    "rollback": lambda: [RollbackForm()],
    "schedule": lambda: [ScheduleForm()],
    "service.schedule": lambda: [ServiceSettingForm()],
    "stream": lambda: [StreamForm()],
    "table": lambda: [RegisterForm()],
    "table.change": lambda: [SettingsForm()],
    "table.create": lambda: [CreateForm()],
    "table.mask": lambda: [MaskForm()],
    "table.unregister": lambda: [UnregisterForm()],
    "service": lambda: [ServiceForm()],
    "sink": lambda: [SinkForm(namespace="")],
    "write": lambda: [WriteForm(kind=kind, namespace="") for kind in SOURCES],
}
"""By request; those that are not listed have no form."""


HAND_WRITTEN: Final = {
    *("ApproveRequest", "DeclineRequest", "NewRule", "NewWideRule"),  # Approvals.
    *("BulkCancel", "BulkService", "BulkSilence", "BulkTables", "BulkTags"),  # Lists of requests.
    *("ChangedRule", "NewSilence", "NewAmount", "NewWideAmount"),  # Alerts and thresholds.
    *("ChangedChannel", "WantedChannel"),
    *("ConnectionNamespaces", "ConnectionSettings", "NewConnection"),
    *("NewTokenRequest", "NewUser", "UserChange", "LinkRequest", "NewPeopleGroup"),
    *("PreviewRequest", "Question", "QueryBody", "RunId", "Statement"),  # Reads.
    *("LeaveRequest", "LogReport", "OperationReport"),  # Workers.
}
"""Bodies in the OpenAPI document that no description makes. Do not add those of operations."""


def find_differences(description: Description) -> Iterator[str]:
    """Find what the ways to ask lack of the fields of a request, or have besides."""
    expected = {
        "API": set(description.names),
        "form": {field.form_name for field in description.all_fields()} - {""},
        "command": {field.flag for field in description.all_fields()} - {""},
        "client": set(parameter_names(description).values()),
    }
    present = {
        "API": find_body_names(description),
        "client": find_client_names(description),
    }
    if description.name in FORMS:
        present["form"] = {name for form in FORMS[description.name]() for name in form.fields}
    if description.command:
        present["command"] = find_flags(description.command)
    own = {"form": {"idempotency_key", "again"}, "client": {"plan", "key"} - expected["client"]}
    for way, names in present.items():
        lacking = expected[way] - names
        more = set() if way == "command" else names - expected[way] - own.get(way, set())
        yield from (f"the {way} lacks {name}" for name in sorted(lacking))
        yield from (f"the {way} has {name} besides" for name in sorted(more))


@cache
def load_document() -> dict[str, Any]:
    return document()


def find_body_names(description: Description) -> set[str]:
    """Return the fields of the body that the OpenAPI document has for the address."""
    if description.method == "DELETE":  # The document has no bodies of these.
        return set(build_body(description)().fields)
    openapi = load_document()
    address = openapi["paths"][f"/api/v1/{description.address}"][description.method.lower()]
    reference = address["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    return set(openapi["components"]["schemas"][reference.rpartition("/")[2]]["properties"])


def find_undescribed(openapi: Mapping[str, Any]) -> set[str]:
    """Find the bodies of changes that no description makes, by their names."""
    bodies = {
        content["schema"].get("$ref", address).rpartition("/")[2].removeprefix("Patched")
        for address, methods in openapi["paths"].items()
        for operation in methods.values()
        for media, content in operation.get("requestBody", {"content": {}})["content"].items()
        if media == "application/json"  # Others are files.
    }
    return bodies - {description.body for description in DESCRIPTIONS}


def find_flags(command: str) -> set[str]:
    name, *actions = command.split()
    parser: Any = load_command_class("controlplane.node", name).create_parser("manage.py", name)
    for action in actions:
        parser = parser._subparsers._group_actions[0].choices[action]
    return {flag for option in parser._actions for flag in option.option_strings or [option.dest]}


def find_client_names(description: Description) -> set[str]:
    parameters = set(inspect.signature(getattr(Client, description.call)).parameters)
    return parameters - {"self", *find_places(description)}


@pytest.mark.django_db
@pytest.mark.parametrize("description", DESCRIPTIONS, ids=lambda description: description.name)
def test_a_request_has_the_same_fields_everywhere(description: Description) -> None:
    assert list(find_differences(description)) == []


def test_every_service_of_the_engine_is_described_and_has_its_arguments() -> None:
    lacking = {
        service.name: {field.flag for field in service.fields} - {""} - find_flags(service.command)
        for service in SERVICES.values()
    }

    assert sorted(SERVICES) == sorted(registry.list_service_names())
    assert {name: flags for name, flags in lacking.items() if flags} == {}


@pytest.mark.django_db
def test_a_field_that_only_the_description_has_is_missed_everywhere() -> None:
    planted = Field(name="planted", label="Planted")

    missed = find_differences(replace(WRITE, fields=[*WRITE.fields, planted]))
    unlisted = find_differences(replace(WRITE, fields=WRITE.fields[1:]))

    assert list(missed) == [
        "the API lacks planted",
        "the client lacks planted",
        "the form lacks planted",
        "the command lacks --planted",
    ]
    assert {"the API has source besides", "the client has source besides"} <= set(unlisted)


def test_every_body_of_an_operation_is_made_of_a_description() -> None:
    openapi = load_document()
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Planted"}}}
    planted = {"/api/v1/tables/{slug}/plant/": {"post": {"requestBody": {"content": content}}}}

    assert find_undescribed(openapi) == HAND_WRITTEN
    assert find_undescribed({"paths": openapi["paths"] | planted}) - HAND_WRITTEN == {"Planted"}


def test_the_kinds_of_schedules_are_those_that_can_be_scheduled() -> None:
    scheduled = sorted(name for name, kind in kinds().items() if kind.scheduled is not None)

    assert CREATE_SCHEDULE["kind"].values == scheduled
    assert GRANT_ROWS["right"].values == list(ROW_RIGHTS)


def test_a_source_has_the_keys_that_its_driver_reads() -> None:
    assert set(part_names("kafka")) == set(FIELDS) - {OFFSETS}
    assert {kind for part in SOURCE.parts for kind in part.of} == set(SOURCES)


def test_the_manual_and_the_client_are_made_of_the_descriptions() -> None:
    assert PAGE.read_text() == requests_page(), "manage.py operation fields > docs/requests.md"
    assert FILE.read_text() == client_calls(), "run `manage.py client_rows`"
