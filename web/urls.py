"""Addresses of the pages and of their fragments."""

from __future__ import annotations

from django.urls import include, path, re_path

from web import events, home_urls, people_urls, register_urls, upkeep_urls
from web.additions import added_urls
from web.pages import (
    conflicts,
    files,
    live,
    locks,
    manual,
    markers,
    operation,
    operation_log,
    overview,
    rollback,
    schema,
    sink_letters,
    sink_reset,
    sinks,
    streams,
    timeline,
    write,
    writers,
)

_INSTANT = r"(?P<{name}>[0-9]{{14}}(?:[0-9]{{3}})?)"
_SINK = r"(?P<sink_id>[A-Za-z0-9][A-Za-z0-9._-]{0,99})"

urlpatterns = [
    *home_urls.urlpatterns,
    *register_urls.urlpatterns,
    *people_urls.urlpatterns,
    path("", include("web.alert_urls")),
    path("", include("web.approval_urls")),
    path("", include("web.connection_urls")),
    path("", include("web.data_urls")),
    re_path(r"^manual/(?P<manual_page>[A-Za-z0-9/-]*)$", manual.manual, name="manual"),
    path("events/", events.all_events, name="events-all"),
    path("events/<slug:slug>", events.table_events, name="events"),
    path("t/<slug:slug>/", overview.overview, name="overview"),
    path("t/<slug:slug>/health", overview.health, name="health"),
    path("t/<slug:slug>/as-of/<slug:part>", live.as_of, name="freshness"),
    path("t/<slug:slug>/live", live.live, name="live"),
    path("t/<slug:slug>/live/parts", live.live_parts, name="live-parts"),
    path("t/<slug:slug>/live/<slug:part>", live.live_part, name="live-part"),
    path("t/<slug:slug>/timeline", timeline.timeline, name="timeline"),
    path("t/<slug:slug>/timeline/figure", timeline.figure, name="timeline-figure"),
    path("t/<slug:slug>/timeline/rows", timeline.rows, name="timeline-rows"),
    re_path(
        rf"^t/(?P<slug>[-\w]+)/timeline/instant/{_INSTANT.format(name='requested_at')}$",
        timeline.instant,
        name="timeline-instant",
    ),
    path("t/<slug:slug>/files", files.files, name="files"),
    path("t/<slug:slug>/files/rows", files.files_rows, name="files-rows"),
    path("t/<slug:slug>/files/group", files.file_group, name="file-group"),
    path("t/<slug:slug>/write", write.write, name="table-write"),
    path("t/<slug:slug>/writers", writers.writers, name="writers"),
    path("t/<slug:slug>/writers/part", writers.writers_part, name="writers-part"),
    re_path(
        rf"^t/(?P<slug>[-\w]+)/writers/{_INSTANT.format(name='instant')}/abort$",
        writers.abort,
        name="writer-abort",
    ),
    re_path(
        rf"^t/(?P<slug>[-\w]+)/writers/{_INSTANT.format(name='instant')}/abort/now$",
        writers.abort_now,
        name="writer-abort-now",
    ),
    path("t/<slug:slug>/locks", locks.locks, name="locks"),
    path("t/<slug:slug>/locks/parts/<slug:part>", locks.locks_part, name="locks-part"),
    path("t/<slug:slug>/markers", markers.markers, name="markers"),
    path("t/<slug:slug>/markers/parts/<slug:part>", markers.markers_part, name="markers-part"),
    re_path(
        rf"^t/(?P<slug>[-\w]+)/markers/{_INSTANT.format(name='instant')}$",
        markers.tree,
        name="marker-tree",
    ),
    path("t/<slug:slug>/conflicts", conflicts.conflicts, name="conflicts"),
    path("t/<slug:slug>/conflicts/rows", conflicts.conflicts_rows, name="conflicts-rows"),
    path("t/<slug:slug>/conflicts/rivals", conflicts.conflicts_rivals, name="conflicts-rivals"),
    re_path(
        rf"^t/(?P<slug>[-\w]+)/conflicts/{_INSTANT.format(name='instant')}$",
        conflicts.conflict,
        name="conflict",
    ),
    re_path(
        rf"^t/(?P<slug>[-\w]+)/conflicts/{_INSTANT.format(name='instant')}/part$",
        conflicts.conflict_part,
        name="conflict-part",
    ),
    path("t/<slug:slug>/schema", schema.schema, name="schema"),
    path("t/<slug:slug>/streams", streams.streams, name="streams"),
    path("t/<slug:slug>/streams/parts/<slug:part>", streams.streams_part, name="streams-part"),
    path("t/<slug:slug>/streams/why", streams.streams_why, name="streams-why"),
    path("t/<slug:slug>/streams/declare", streams.declare, name="stream-declare"),
    path("t/<slug:slug>/streams/launch", streams.launch, name="stream-launch"),
    path("t/<slug:slug>/sinks", sinks.sinks, name="sinks"),
    path("t/<slug:slug>/sinks/list", sinks.sinks_list, name="sinks-list"),
    path("t/<slug:slug>/sinks/start", sinks.start, name="sink-start"),
    re_path(
        rf"^t/(?P<slug>[-\w]+)/sinks/parts/{_SINK}/(?P<part>[a-z_]+)$",
        sinks.sinks_part,
        name="sinks-part",
    ),
    re_path(rf"^t/(?P<slug>[-\w]+)/sinks/{_SINK}/replay$", sink_letters.replay, name="sink-replay"),
    re_path(rf"^t/(?P<slug>[-\w]+)/sinks/{_SINK}/reset$", sink_reset.reset, name="sink-reset"),
    re_path(rf"^t/(?P<slug>[-\w]+)/sinks/{_SINK}/stop$", sinks.stop, name="sink-stop"),
    re_path(rf"^t/(?P<slug>[-\w]+)/sinks/{_SINK}/relaunch$", sinks.relaunch, name="sink-relaunch"),
    path("t/<slug:slug>/rollback", rollback.rollback, name="rollback"),
    path("t/<slug:slug>/rollback/choices", rollback.choices, name="rollback-choices"),
    re_path(
        r"^t/(?P<slug>[-\w]+)/rollback/writers/(?P<change>pause|resume)$",
        rollback.writers_pause,
        name="writers-pause",
    ),
    re_path(
        rf"^t/(?P<slug>[-\w]+)/rollback/{_INSTANT.format(name='instant')}$",
        rollback.rollback_plan,
        name="rollback-plan",
    ),
    path("t/<slug:slug>/operations/<uuid:operation_id>", operation.operation, name="operation"),
    path(
        "t/<slug:slug>/operations/<uuid:operation_id>/state",
        operation.operation_state,
        name="operation-state",
    ),
    path(
        "t/<slug:slug>/operations/<uuid:operation_id>/log",
        operation_log.operation_log,
        name="operation-log",
    ),
    path(
        "t/<slug:slug>/operations/<uuid:operation_id>/log/download",
        operation_log.operation_log_download,
        name="operation-log-download",
    ),
    path(
        "t/<slug:slug>/operations/<uuid:operation_id>/again",
        operation.operation_again,
        name="operation-again",
    ),
    path(
        "t/<slug:slug>/operations/<uuid:operation_id>/cancel",
        operation.operation_cancel,
        name="operation-cancel",
    ),
    *upkeep_urls.urlpatterns,
    *added_urls(),
]
