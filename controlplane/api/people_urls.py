"""Addresses of people, of what they are given, and of their tokens."""

from __future__ import annotations

from django.urls import path

from controlplane.api.v1 import grants, people, row_grants, tokens

urlpatterns = [
    path(
        "tables/<slug:slug>/masked-columns/",
        row_grants.MaskedColumnsApi.as_view(),
        name="masked_columns",
    ),
    path("grants/", grants.GrantListApi.as_view(), name="grants"),
    path("grants/<int:grant_id>/", grants.GrantApi.as_view(), name="grant"),
    path("users/", people.UserListApi.as_view(), name="users"),
    path("users/<str:username>/", people.UserApi.as_view(), name="user"),
    path("users/<str:username>/link/", people.UserLinkApi.as_view(), name="user_link"),
    path("groups/", people.GroupListApi.as_view(), name="groups"),
    path("groups/<int:group_id>/", people.GroupApi.as_view(), name="group"),
    path(
        "groups/<int:group_id>/members/<str:username>/",
        people.GroupMemberApi.as_view(),
        name="group_member",
    ),
    path("row-grants/", row_grants.RowGrantListApi.as_view(), name="row_grants"),
    path("row-grants/<int:grant_id>/", row_grants.RowGrantApi.as_view(), name="row_grant"),
    path("tokens/", tokens.TokenListApi.as_view(), name="tokens"),
    path("tokens/<slug:token_key>/", tokens.TokenApi.as_view(), name="token"),
]
