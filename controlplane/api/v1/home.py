"""Home over all tables that the caller sees."""

from __future__ import annotations

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsViewer
from controlplane.api.outputs import output, shown
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.home.board import HomeBoard, HomeLook, HourBoard


class HomeApi(ApiView):
    permission_classes = [IsViewer]

    @extend_schema(operation_id="home_read", responses=output(HomeBoard))
    def get(self, request: Request) -> Response:
        """Numbers and the first rows of each list: active writers, conflicts, pending markers, join
        status, what needs attention, running operations and recent actions.
        """
        return Response(shown(HomeLook(actor(request), timezone.now()).board()))


class HomeHoursApi(ApiView):
    permission_classes = [IsViewer]

    @extend_schema(operation_id="home_hours", responses=output(HourBoard))
    def get(self, request: Request) -> Response:
        """Commits and conflicts of each of the last 24 hours: all tables together, then the tables
        with the most conflicts.
        """
        return Response(shown(HomeLook(actor(request), timezone.now()).hours()))
