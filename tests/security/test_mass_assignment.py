"""Threat T13: a request sets what its address is for, and no other column. The routes come from the
matrix of all roles, the columns from all models.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django import forms
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.test import Client
from rest_framework import serializers

from controlplane.accounts.models import Grant, Token
from tests.controlplane.api.test_permissions import CASES, REPORTS

WRITES = [case for case in CASES if case[1] != "GET" and case[0] not in REPORTS]
TAKES_NO_BODY = {
    # What they do is all in the address, so a body is not even read.
    "grant DELETE", "row_grant DELETE", "group DELETE", "group_member PUT", "group_member DELETE",
    "token DELETE", "marker_server_restart POST", "schedule DELETE", "alert_silence DELETE",
    "channel DELETE", "channel_test POST", "saved_query DELETE", "connection DELETE",
    "connection_test POST", "upload DELETE",
    # The body is a file.
    "uploads POST",
}  # fmt: skip
OURS = (
    *("accounts", "auth", "audit", "tables", "mirror", "writers", "operations", "monitoring"),
    *("connections", "uploads"),
)


def columns() -> set[str]:
    """Names of all columns, and of all relations, of every model."""
    return {
        name
        for model in apps.get_models()
        if model._meta.app_label in OURS
        for field in model._meta.get_fields()
        for name in (field.name, getattr(field, "attname", field.name))
    }


def snapshot(rows: dict[type[Model], list[int | str]]) -> dict[str, list[dict[str, Any]]]:
    """Every column of these rows."""
    return {
        model.__name__: list(model._default_manager.filter(pk__in=keys).order_by("pk").values())
        for model, keys in rows.items()
    }


def test_columns_that_a_route_does_not_name_are_refused_by_name(
    addresses: dict[str, str], as_admin: Client, admin: User
) -> None:
    kept: dict[type[Model], list[int | str]] = {
        model: list(model._default_manager.values_list("pk", flat=True))
        for model in apps.get_models()
        if model._meta.app_label in OURS
    }
    before = snapshot(kept)
    body = json.dumps(dict.fromkeys(sorted(columns()), "1"))
    taken = {}

    for name, method, *_ in WRITES:
        if f"{name} {method}" in TAKES_NO_BODY:
            continue
        answer = as_admin.generic(method, addresses[name], body, "application/json")
        refused = answer.json()["values"].get("fields", {}) if answer.status_code == 400 else {}
        if not {"is_superuser", "password", "digest", "granted_by", "user_id"} <= set(refused):
            taken[f"{method} {name}"] = answer.content[:200]

    assert taken == {}
    assert snapshot(kept) == before


def test_route_that_takes_no_body_sets_nothing_of_it(
    addresses: dict[str, str], as_admin: Client, viewer: User
) -> None:
    group = Group.objects.create(name="night")
    body = {"is_superuser": True, "is_staff": True, "name": "other", "password": "x", "id": 1}

    answer = as_admin.put(
        f"/api/v1/groups/{group.pk}/members/vera/", json.dumps(body), "application/json"
    )

    before = viewer.password
    viewer.refresh_from_db()
    group.refresh_from_db()
    assert answer.status_code == 200
    assert (viewer.is_superuser, viewer.is_staff, viewer.password) == (False, False, before)
    assert group.name == "night"


def test_no_form_and_no_serializer_takes_its_fields_from_a_model() -> None:
    made_of_models = [
        made
        for base in (forms.ModelForm, serializers.ModelSerializer)
        for made in _below(base)
        if made.__module__.startswith(("controlplane", "web"))
    ]

    assert made_of_models == []


def _below(base: type[Any]) -> Iterator[type[Any]]:
    for made in base.__subclasses__():
        yield made
        yield from _below(made)


ROOT = {
    "is_superuser": "on", "is_staff": "on", "is_active": "", "id": "1", "pk": "1", "user": "ada",
    "user_id": "1", "password": "x", "digest": "x", "token_key": "x", "expiry": "2099-01-01",
    "created": "2000-01-01", "last_used_at": "2000-01-01", "granted_by": "nobody", "groups": "1",
}  # fmt: skip
"""What a page's form has no field for."""


def test_forms_of_pages_set_their_own_fields_only(as_admin: Client, admin: User) -> None:
    made = as_admin.post("/people", ROOT | {"name": "pia", "email": ""})
    pia = User.objects.get(username="pia")
    token = as_admin.post("/tokens", ROOT | {"name": "t", "scope": "read", "days": "1"})
    given = as_admin.post("/access", ROOT | {"user": "pia", "role": "viewer", "namespace": "sales"})

    assert (made.status_code, token.status_code, given.status_code) == (302, 200, 302)
    assert (pia.is_superuser, pia.is_staff, pia.is_active) == (False, False, True)
    assert not pia.has_usable_password()
    assert not pia.groups.exists()
    stored = Token.objects.get()
    assert (stored.user, stored.last_used_at) == (admin, None)
    assert stored.digest != "x"
    assert stored.expiry is not None
    assert stored.expiry.year < 2099
    assert Grant.objects.get(user=pia).granted_by == "ada"
