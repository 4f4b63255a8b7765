"""People and groups of people: list, make, change, lock out."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts.access_levels import ROLES
from controlplane.api.auth import KeepsPeople
from controlplane.api.if_match import if_unchanged
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated, validated_query
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.people.actions.groups import (
    NAME_CHARS_MAX,
    do_add_member,
    do_create_group,
    do_delete_group,
    do_remove_member,
)
from controlplane.people.actions.users import (
    do_activate_user,
    do_create_user,
    do_deactivate_user,
    do_make_link,
    do_set_roles,
    get_link_hours,
)
from controlplane.people.queries.users import (
    PeopleGroup,
    PersonDetail,
    PersonRow,
    get_group_row,
    get_user_detail,
    list_groups,
    list_users,
)
from controlplane.tables.grants import Granter


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordLink:
    path: str
    """Below the node's address: whoever opens it sets the password, once."""
    hours: int
    """For how long it is good."""


def _roles(**options: object) -> serializers.ListField:
    field = serializers.ChoiceField(choices=ROLES)
    return serializers.ListField(child=field, max_length=len(ROLES), **options)  # type: ignore[arg-type]  # handed on as they came


class _Reasoned(Strict):
    reason = serializers.CharField(max_length=500, required=False, default="", allow_blank=True)


class UserListApi(ApiView):
    permission_classes = [KeepsPeople]

    class UserListQuery(Strict):
        search = serializers.CharField(max_length=150, required=False, default="")
        after = serializers.CharField(
            max_length=150,
            required=False,
            default="",
            help_text="The last name of the answer before: the next ones.",
        )

    class NewUser(_Reasoned):
        name = serializers.CharField(max_length=150)
        email = serializers.CharField(max_length=254, required=False, default="", allow_blank=True)
        roles = _roles(required=False, default=list, help_text="Those that hold everywhere.")

    @extend_schema(
        operation_id="users_list",
        parameters=[UserListQuery],
        responses=output(PersonRow)(many=True),
    )
    def get(self, request: Request) -> Response:
        """By name; the first 500 of those that `search` fits, behind the name `after`."""
        return Response(shown_list(list_users(**validated_query(self.UserListQuery, request))))

    @extend_schema(operation_id="users_create", request=NewUser, responses={201: output(PersonRow)})
    def post(self, request: Request) -> Response:
        """Without a password: make a link for it."""
        body = validated(self.NewUser, request)
        by = Granter.person(actor(request))
        return Response(shown(do_create_user(body.pop("name"), by=by, **body)), status=201)


class UserApi(ApiView):
    permission_classes = [KeepsPeople]
    edited_fields = ("person.roles", "person.is_active")

    class UserChange(_Reasoned):
        roles = _roles(required=False, help_text="In place of those that held everywhere.")
        is_active = serializers.BooleanField(
            required=False, help_text="False ends sessions and tokens at once."
        )

    @extend_schema(operation_id="users_get", responses=output(PersonDetail))
    def get(self, request: Request, username: str) -> Response:
        """With all that this person may, and why."""
        return Response(shown(get_user_detail(username)))

    @if_unchanged
    @extend_schema(operation_id="users_change", request=UserChange, responses=output(PersonDetail))
    def patch(self, request: Request, username: str) -> Response:
        """All of it happens, or nothing."""
        body = validated(self.UserChange, request)
        by, reason = Granter.person(actor(request)), body["reason"]
        with transaction.atomic():
            if "roles" in body:
                do_set_roles(username, body["roles"], by=by, reason=reason)
            if "is_active" in body:
                change = do_activate_user if body["is_active"] else do_deactivate_user
                change(username, by=by, reason=reason)
        return Response(shown(get_user_detail(username)))


class UserLinkApi(ApiView):
    permission_classes = [KeepsPeople]

    class LinkRequest(_Reasoned):
        """Nothing but why."""

    @extend_schema(
        operation_id="users_link", request=LinkRequest, responses={201: output(PasswordLink)}
    )
    def post(self, request: Request, username: str) -> Response:
        """A page on which the person sets a password; hand it over in private."""
        body = validated(self.LinkRequest, request)
        by = Granter.person(actor(request))
        path = do_make_link(username, by=by, reason=body["reason"])
        response = Response(shown(PasswordLink(path=path, hours=get_link_hours())), status=201)
        response["Cache-Control"] = "no-store"
        return response


class GroupListApi(ApiView):
    permission_classes = [KeepsPeople]
    sort_keys = ("name", "id")

    class NewPeopleGroup(_Reasoned):
        name = serializers.CharField(max_length=NAME_CHARS_MAX)

    @extend_schema(operation_id="groups_list", responses=output(PeopleGroup)(many=True))
    def get(self, request: Request) -> Response:
        """Groups of people, not of roles, with their members and what they give them."""
        return Response(shown_list(list_groups()))

    @extend_schema(
        operation_id="groups_create", request=NewPeopleGroup, responses={201: output(PeopleGroup)}
    )
    def post(self, request: Request) -> Response:
        body = validated(self.NewPeopleGroup, request)
        by = Granter.person(actor(request))
        row = do_create_group(body["name"], by=by, reason=body["reason"])
        return Response(shown(row), status=201)


class GroupApi(ApiView):
    permission_classes = [KeepsPeople]
    edited_fields = ("name", "members", "rights")

    @extend_schema(operation_id="groups_read", responses=output(PeopleGroup))
    def get(self, request: Request, group_id: int) -> Response:
        """With its members and what it gives them."""
        return Response(shown(get_group_row(group_id)))

    @if_unchanged
    @extend_schema(operation_id="groups_delete", responses={204: None})
    def delete(self, request: Request, group_id: int) -> Response:
        """With its roles, which its members lose."""
        do_delete_group(group_id, by=Granter.person(actor(request)))
        return Response(status=204)


class GroupMemberApi(ApiView):
    permission_classes = [KeepsPeople]

    @extend_schema(operation_id="groups_add_member", request=None, responses=output(PeopleGroup))
    def put(self, request: Request, group_id: int, username: str) -> Response:
        by = Granter.person(actor(request))
        return Response(shown(do_add_member(group_id, username, by=by)))

    @extend_schema(operation_id="groups_remove_member", responses=output(PeopleGroup))
    def delete(self, request: Request, group_id: int, username: str) -> Response:
        by = Granter.person(actor(request))
        return Response(shown(do_remove_member(group_id, username, by=by)))
