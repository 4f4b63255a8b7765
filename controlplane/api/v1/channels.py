"""Channels, which are sent word of alerts, and what went out through them. For admins."""

from __future__ import annotations

from dataclasses import fields

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsAdmin
from controlplane.api.if_match import if_unchanged
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated, validated_query
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.monitoring.channels.actions import (
    GROUP_S_MAX,
    NAME_CHARS_MAX,
    ChannelSpec,
    NewChannel,
    do_change_channel,
    do_create_channel,
    do_delete_channel,
    do_test_channel,
)
from controlplane.monitoring.channels.kinds import FORMATS, KINDS
from controlplane.monitoring.channels.queries import (
    ChannelRow,
    MessageRow,
    get_channel_row,
    list_channels,
    list_messages,
)
from controlplane.monitoring.severities import SEVERITIES

_ADDRESS_CHARS_MAX = 2_000
_LISTED_MAX = 100


class WantedChannel(Strict):
    name = serializers.CharField(max_length=NAME_CHARS_MAX)
    kind = serializers.ChoiceField(choices=list(KINDS))
    address = serializers.CharField(
        max_length=_ADDRESS_CHARS_MAX,
        required=False,
        allow_blank=True,
        default="",
        help_text="Mail addresses, a URL, or an address of apprise; never shown again. Without one "
        "a change leaves it as it is.",
    )
    body_format = serializers.ChoiceField(
        choices=list(FORMATS),
        required=False,
        allow_blank=True,
        default="",
        help_text="Of a webhook.",
    )
    severity_min = serializers.ChoiceField(
        choices=list(SEVERITIES), required=False, default="warning"
    )
    checks = serializers.ListField(
        child=serializers.CharField(max_length=64),
        max_length=_LISTED_MAX,
        required=False,
        default=list,
        help_text="Of these alone; empty means all.",
    )
    namespaces = serializers.ListField(
        child=serializers.CharField(max_length=64),
        max_length=_LISTED_MAX,
        required=False,
        default=list,
        help_text="Of these alone; empty means all.",
    )
    group_s = serializers.IntegerField(
        min_value=0, max_value=GROUP_S_MAX, required=False, default=60
    )
    sends_resolved = serializers.BooleanField(required=False, default=True)
    is_paused = serializers.BooleanField(required=False, default=False)


class ChannelListApi(ApiView):
    permission_classes = [IsAdmin]
    sort_keys = ("name", "kind", "made_at")

    @extend_schema(operation_id="channels_list", responses=output(ChannelRow)(many=True))
    def get(self, request: Request) -> Response:
        """Without what opens them."""
        return Response(shown_list(list_channels(actor(request))))

    @extend_schema(
        operation_id="channels_create", request=WantedChannel, responses={201: output(NewChannel)}
    )
    def post(self, request: Request) -> Response:
        """The answer has the secret of a signed webhook, and no later one does."""
        wish = ChannelSpec(**validated(WantedChannel, request))
        return Response(shown(do_create_channel(wish, by=actor(request))), status=201)


class ChannelApi(ApiView):
    permission_classes = [IsAdmin]
    edited_fields = tuple(field.name for field in fields(ChannelRow))

    class ChangedChannel(WantedChannel):
        wants_new_secret = serializers.BooleanField(required=False, default=False)

    @extend_schema(operation_id="channels_read", responses=output(ChannelRow))
    def get(self, request: Request, channel_id: int) -> Response:
        return Response(shown(get_channel_row(actor(request), channel_id)))

    @if_unchanged
    @extend_schema(
        operation_id="channels_change", request=ChangedChannel, responses=output(NewChannel)
    )
    def put(self, request: Request, channel_id: int) -> Response:
        """All of it anew, but the kind and an address that is not given."""
        body = validated(self.ChangedChannel, request)
        wants_new_secret = body.pop("wants_new_secret")
        changed = do_change_channel(
            channel_id, ChannelSpec(**body), by=actor(request), wants_new_secret=wants_new_secret
        )
        return Response(shown(changed))

    @if_unchanged
    @extend_schema(operation_id="channels_delete", responses={204: None})
    def delete(self, request: Request, channel_id: int) -> Response:
        """With its messages, sent or not."""
        do_delete_channel(channel_id, by=actor(request))
        return Response(status=204)


class ChannelTestApi(ApiView):
    permission_classes = [IsAdmin]

    class TestMessage(serializers.Serializer[dict[str, str]]):
        message_id = serializers.CharField()

    @extend_schema(operation_id="channels_test", request=None, responses={202: TestMessage})
    def post(self, request: Request, channel_id: int) -> Response:
        """A message goes out within seconds; `/channels/messages/` says how it went."""
        message_id = do_test_channel(channel_id, by=actor(request))
        return Response({"message_id": message_id}, status=202)


class MessageListApi(ApiView):
    permission_classes = [IsAdmin]

    class Query(Strict):
        channel = serializers.IntegerField(min_value=1, required=False, default=None)

    @extend_schema(
        operation_id="channels_messages",
        parameters=[Query],
        responses=output(MessageRow)(many=True),
    )
    def get(self, request: Request) -> Response:
        """The newest 100, with every attempt to deliver them."""
        channel_id = validated_query(self.Query, request)["channel"]
        return Response(shown_list(list_messages(actor(request), channel_id=channel_id)))
