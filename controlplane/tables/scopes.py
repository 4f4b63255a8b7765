"""Where something that admins set holds: on a table, in a namespace, or everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from django.contrib.auth.models import User
from django.http import Http404

from controlplane.tables.access import (
    Permission,
    may,
    may_everywhere,
    may_in_namespace,
    visible_tables,
)
from controlplane.tables.models import Table

ScopeKind = Literal["everywhere", "namespace", "table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """On a table, in a namespace, or everywhere where both are absent."""

    table: Table | None = None
    namespace: str = ""

    @property
    def kind(self) -> ScopeKind:
        if self.table is not None:
            return "table"
        return "namespace" if self.namespace else "everywhere"

    def __str__(self) -> str:
        return self.table.slug if self.table is not None else self.namespace or "everywhere"


def visible_scope(user: User, namespace: str) -> Scope:
    """The scope of a namespace in which `user` sees a table, or may set something; everywhere for
    the empty name. Raises Http404, without a difference for one that there is not.
    """
    scope = Scope(namespace=namespace)
    is_hidden = namespace and not may_administer(user, scope)
    if is_hidden and not visible_tables(user).filter(namespace=namespace).exists():
        raise Http404("namespace not found")
    return scope


def may_administer(user: User, scope: Scope) -> bool:
    """An admin's, of the table, of the namespace, or of everything."""
    if scope.table is not None:
        return may(user, Permission.ADMINISTER, scope.table)
    if scope.namespace:
        return may_in_namespace(user, Permission.ADMINISTER, scope.namespace)
    return may_everywhere(user, Permission.ADMINISTER)
