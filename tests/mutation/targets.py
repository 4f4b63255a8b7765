"""Which modules are changed, and the quick tests that must notice it: declared here alone.

A change is tried against these tests only, so what they miss may well fail in a longer test; a rule
of the protocol should still have a test that takes seconds.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    modules: tuple[str, ...]
    """Files below the root of the repository."""
    nearest: tuple[str, ...]
    """Files and folders of tests that state the rules of these modules: they are tried first."""
    farther: tuple[str, ...] = ()
    """Stories and other tests, tried on what survived the nearest."""

    @property
    def tests(self) -> tuple[str, ...]:
        """All of them; none needs Java or a database server."""
        return (*self.nearest, *self.farther)


def _below(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}.py" for name in names)


TARGETS = (
    Target(
        _below("workers/sink", "offsets"),
        ("tests/workers/sink/test_offsets.py",),
    ),
    Target(
        _below("workers/concurrency", "conflicts", "file_conflicts", "validation"),
        _below("tests/workers/concurrency", "test_conflict_rules", "test_conflicts"),
        (
            *_below("tests/scenarios", "test_inserted_keys", "test_key_partitions"),
            *_below("tests/scenarios", "test_optimistic", "test_schema_conflicts"),
            *_below("tests/scenarios", "test_silent_writers"),
        ),
    ),
    Target(
        _below("workers/timeline", "instant", "layout", "timeline", "decisions", "transitions"),
        (
            *_below("tests/workers/timeline", "test_archived_before", "test_asserted"),
            *_below("tests/workers/timeline", "test_decisions", "test_layout"),
            *_below("tests/workers/timeline", "test_remembered", "test_transitions"),
        ),
        (
            *_below("tests/workers/timeline", "test_archive", "test_conflict_archive"),
            *_below("tests/workers/timeline", "test_divergence_counts", "test_service_plans"),
            *_below("tests/scenarios", "test_unknown_outcomes", "test_rollback", "test_sleepers"),
        ),
    ),
    Target(
        _below(
            "workers/concurrency/locks", "lease", "wait_queue", "record", "record_lease", "waiters"
        ),
        _below("tests/workers/concurrency/locks", "test_wait_queue", "test_record", "test_status"),
        (
            "tests/workers/concurrency/locks/test_lost_answers.py",
            "tests/workers/concurrency/test_storage_lease.py",
        ),
    ),
    Target(
        _below("workers/recovery", "archive_cleanup", "failed_writes", "plan", "rollback"),
        (
            "tests/workers/recovery/",
            *_below("tests/scenarios", "test_resumed_rollbacks", "test_rollback_outcomes"),
            *_below("tests/scenarios", "test_dead_writers", "test_failed_writes_policy"),
            *_below("tests/scenarios", "test_rollback", "test_rollback_listings"),
        ),
        (
            *_below("tests/scenarios", "test_silent_writers", "test_sleepers"),
            *_below("tests/regressions", "test_heartbeat_bugs", "test_rollback_bugs"),
            *_below("tests/workers/table_services", "test_archive", "test_archive_waits"),
            *_below("tests/workers/table_services", "test_late_files", "test_restore"),
            "tests/crash/test_swept_markers.py",
        ),
    ),
    Target(
        _below("workers/markers", "batcher", "fence", "journal", "marker", "store", "tokens"),
        _below(
            "tests/workers/markers",
            *("test_marker_names", "test_marker_store", "test_marker_batching"),
            *("test_marker_directory", "test_marker_requests"),
        ),
        _below("tests/workers/markers", "test_marker_access", "test_marker_behaviour"),
    ),
)


def target_of(module: str) -> Target:
    """Whose rules a change of `module` is tried on."""
    return next(target for target in TARGETS if module in target.modules)
