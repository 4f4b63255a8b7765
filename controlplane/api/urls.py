"""Addresses under /api/v1/."""

from __future__ import annotations

from csp.constants import UNSAFE_INLINE
from csp.decorators import csp_update
from django.urls import path, register_converter
from django.urls.converters import StringConverter
from django.views.decorators.http import require_safe
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from controlplane.api import (
    alert_urls,
    bulk_urls,
    connection_urls,
    openapi,  # noqa: F401 - imported for what it registers
    operation_urls,
    people_urls,
    row_urls,
    upload_urls,
)
from controlplane.api.reports import urls as reports
from controlplane.api.v1 import (
    activity,
    audit,
    events,
    files,
    home,
    new_tables,
    operations,
    rows,
    schedules,
    sinks,
    source_previews,
    streams,
    table_services,
    tables,
    timeline,
    writers,
)


class InstantTimeConverter:
    regex = r"[0-9]{14}(?:[0-9]{3})?"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class ServiceConverter(StringConverter):
    regex = r"[a-z][a-z_]{0,31}"


class FileIdConverter(StringConverter):
    regex = r"[A-Za-z0-9-]{1,128}"


class SinkConverter(StringConverter):
    regex = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"


register_converter(InstantTimeConverter, "instant")
register_converter(ServiceConverter, "service")
register_converter(FileIdConverter, "file_id")
register_converter(SinkConverter, "sink")

# The page's own script is a file of its own; the packaged page still has styles inside.
docs = require_safe(
    csp_update({"style-src": [UNSAFE_INLINE]})(
        SpectacularSwaggerSplitView.as_view(url_name="api:schema")
    )
)

_TABLE = "tables/<slug:slug>/"
_SINK = f"{_TABLE}sinks/<sink:sink_id>/"
_SCHEDULE = f"{_TABLE}schedules/<uuid:schedule_id>/"

app_name = "api"
urlpatterns = [
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("docs/", docs, name="docs"),
    path("home/", home.HomeApi.as_view(), name="home"),
    path("home/hours/", home.HomeHoursApi.as_view(), name="home_hours"),
    path("tables/", tables.TableListApi.as_view(), name="tables"),
    path("new-tables/", new_tables.NewTableApi.as_view(), name="new_tables"),
    path(
        "new-tables/suggestion/",
        new_tables.TableSuggestionApi.as_view(),
        name="new_table_suggestion",
    ),
    path(_TABLE, tables.TableApi.as_view(), name="table"),
    path(f"{_TABLE}events/", events.TableEventsApi.as_view(), name="table_events"),
    path("events/", events.EventsApi.as_view(), name="events"),
    path(f"{_TABLE}unregister/plan/", tables.UnregisterPlanApi.as_view(), name="unregister_plan"),
    path(f"{_TABLE}instants/", timeline.InstantListApi.as_view(), name="instants"),
    path(
        f"{_TABLE}instants/<instant:requested_at>/", timeline.InstantApi.as_view(), name="instant"
    ),
    path(
        f"{_TABLE}instants/<instant:requested_at>/changes/",
        rows.InstantChangesApi.as_view(),
        name="instant_changes",
    ),
    path(f"{_TABLE}schemas/", timeline.SchemaListApi.as_view(), name="schemas"),
    path(f"{_TABLE}schemas/diff/", timeline.SchemaDiffApi.as_view(), name="schema_diff"),
    path(f"{_TABLE}partitions/", files.PartitionListApi.as_view(), name="partitions"),
    path(f"{_TABLE}file-groups/", files.FileGroupListApi.as_view(), name="file_groups"),
    path(
        f"{_TABLE}file-groups/<file_id:file_id>/", files.FileGroupApi.as_view(), name="file_group"
    ),
    path(f"{_TABLE}services/", table_services.ServiceListApi.as_view(), name="services"),
    path(
        f"{_TABLE}services/history/",
        table_services.ServiceHistoryApi.as_view(),
        name="service_runs",
    ),
    path(
        f"{_TABLE}services/<service:service>/",
        table_services.ServiceRunApi.as_view(),
        name="service",
    ),
    path(
        f"{_TABLE}services/<service:service>/plan/",
        table_services.ServicePlanApi.as_view(),
        name="service_plan",
    ),
    path(
        f"{_TABLE}services/<service:service>/schedule/",
        table_services.ServiceSettingApi.as_view(),
        name="service_schedule",
    ),
    path(f"{_TABLE}savepoints/", table_services.SavepointListApi.as_view(), name="savepoints"),
    path(f"{_TABLE}markers/", timeline.MarkerListApi.as_view(), name="markers"),
    path(
        f"{_TABLE}markers/directories/",
        activity.MarkerDirectoryListApi.as_view(),
        name="marker_directories",
    ),
    path(
        f"{_TABLE}markers/<instant:requested_at>/",
        activity.MarkerTreeApi.as_view(),
        name="marker_tree",
    ),
    path(f"{_TABLE}lock/", activity.LockApi.as_view(), name="lock"),
    path(f"{_TABLE}lock/waits/", activity.LockWaitListApi.as_view(), name="lock_waits"),
    path(f"{_TABLE}streams/", streams.StreamListApi.as_view(), name="streams"),
    path(f"{_TABLE}streams/join/", streams.JoinApi.as_view(), name="streams_join"),
    path(f"{_TABLE}streams/rounds/", streams.StreamRoundListApi.as_view(), name="stream_rounds"),
    path(f"{_TABLE}streams/commits/", streams.StreamCommitListApi.as_view(), name="stream_commits"),
    path(f"{_TABLE}streams/explain/", streams.CellApi.as_view(), name="stream_cell"),
    path(f"{_TABLE}sinks/", sinks.SinkListApi.as_view(), name="sinks"),
    path(_SINK, sinks.SinkApi.as_view(), name="sink"),
    path(
        f"{_SINK}participants/",
        sinks.SinkParticipantListApi.as_view(),
        name="sink_participants",
    ),
    path(
        f"{_SINK}transactions/",
        sinks.SinkTransactionListApi.as_view(),
        name="sink_transactions",
    ),
    path(f"{_SINK}trace/", sinks.SinkTraceApi.as_view(), name="sink_trace"),
    path(f"{_SINK}dead-letters/", sinks.SinkLetterListApi.as_view(), name="sink_letters"),
    path(
        f"{_SINK}dead-letters/<instant:requested_at>/",
        sinks.SinkLetterApi.as_view(),
        name="sink_letter",
    ),
    path(
        f"{_SINK}dead-letters/replay/",
        sinks.SinkReplayApi.as_view(),
        name="sink_letters_replay",
    ),
    path(f"{_SINK}reset/plan/", sinks.SinkResetPlanApi.as_view(), name="sink_reset_plan"),
    path(f"{_SINK}reset/", sinks.SinkResetApi.as_view(), name="sink_reset"),
    path(f"{_SINK}stop/", sinks.SinkStopApi.as_view(), name="sink_stop"),
    path(f"{_SINK}relaunch/", sinks.SinkRelaunchApi.as_view(), name="sink_relaunch"),
    path(f"{_TABLE}writers/", writers.WriterListApi.as_view(), name="writers"),
    path(
        f"{_TABLE}writers/activity/", activity.WriterActivityApi.as_view(), name="writers_activity"
    ),
    path(
        f"{_TABLE}writers/<instant:requested_at>/abort/",
        activity.WriterAbortApi.as_view(),
        name="writer_abort",
    ),
    path(f"{_TABLE}conflicts/", writers.ConflictListApi.as_view(), name="conflicts"),
    path(
        f"{_TABLE}conflicts/<instant:requested_at>/", writers.ConflictApi.as_view(), name="conflict"
    ),
    path(
        f"{_TABLE}operations/", operations.TableOperationListApi.as_view(), name="table_operations"
    ),
    path(f"{_TABLE}operations/plan/", operations.OverwritePlanApi.as_view(), name="overwrite_plan"),
    path(f"{_TABLE}schedules/", schedules.TableScheduleListApi.as_view(), name="table_schedules"),
    path(_SCHEDULE, schedules.ScheduleApi.as_view(), name="schedule"),
    path(f"{_SCHEDULE}pause/", schedules.SchedulePauseApi.as_view(), name="schedule_pause"),
    path(f"{_SCHEDULE}runs/", schedules.ScheduleRunListApi.as_view(), name="schedule_runs"),
    path("schedules/", schedules.ScheduleListApi.as_view(), name="schedules"),
    path("schedules/days/", schedules.ScheduleDaysApi.as_view(), name="schedule_days"),
    path(
        f"{_TABLE}sources/preview/",
        source_previews.SourcePreviewApi.as_view(),
        name="source_preview",
    ),
    path(f"{_TABLE}rollbacks/plan/", operations.RollbackPlanApi.as_view(), name="rollback_plan"),
    path(f"{_TABLE}rollbacks/", operations.RollbackCreateApi.as_view(), name="rollbacks"),
    path("operations/", operations.OperationListApi.as_view(), name="operations"),
    path("operations/<uuid:operation_id>/", operations.OperationApi.as_view(), name="operation"),
    path(
        "operations/<uuid:operation_id>/cancel/",
        operations.OperationCancelApi.as_view(),
        name="operation_cancel",
    ),
    *operation_urls.urlpatterns,
    path("marker-server/", writers.MarkerServerApi.as_view(), name="marker_server"),
    path(
        "marker-server/restart/",
        writers.MarkerServerRestartApi.as_view(),
        name="marker_server_restart",
    ),
    path("audit/", audit.AuditListApi.as_view(), name="audit"),
    path("audit/chain/", audit.AuditChainApi.as_view(), name="audit_chain"),
    path("audit/export/", audit.AuditExportApi.as_view(), name="audit_export"),
    path("audit/<int:event_id>/", audit.AuditEventApi.as_view(), name="audit_event"),
    *alert_urls.urlpatterns,
    *bulk_urls.urlpatterns,
    *connection_urls.urlpatterns,
    *people_urls.urlpatterns,
    *row_urls.urlpatterns,
    *upload_urls.urlpatterns,
    *reports.urlpatterns,
]
