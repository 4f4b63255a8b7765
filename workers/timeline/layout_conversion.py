"""Conversion of a timeline of layout 1 to layout 2: completion times, and the contents of files.

Pure. Layout 1 records no completion time and orders by request, and so does the result.
"""

from __future__ import annotations

from collections.abc import Iterable

from workers.clock import InstantTime, format_instant, parse_instant
from workers.errors import MalformedTable
from workers.files.avro_container import encode_record
from workers.json_text import read_json
from workers.timeline.avro_schemas import COMMIT_METADATA, REPLACE_COMMIT_METADATA
from workers.timeline.instant import Action, Instant


def completion_times(completed: Iterable[Instant]) -> dict[Instant, InstantTime]:
    """Return a completion time for each instant: right after its request, and no two at the same
    time. So order and time travel do not change, and each log file stays in the slice of the base
    file that it is named after.

    Modification times of files mean nothing in a table that was copied. A savepoint, which has its
    commit's request, comes later than that commit.
    """
    ordered = sorted(completed, key=lambda instant: (instant.action is Action.SAVEPOINT, instant))
    times: dict[Instant, InstantTime] = {}
    used: set[InstantTime] = set()
    for instant in ordered:
        at = _after(instant.requested_at)
        while at in used:
            at = _after(at)
        used.add(at)
        times[instant] = at
    return times


def _after(instant: InstantTime) -> InstantTime:
    return format_instant(parse_instant(instant) + 1)


def convert_content(content: bytes, action: Action) -> bytes:
    """Convert the content of a timeline file, or of an archived instant: commits as Avro, in full.

    Raises MalformedTable.
    """
    if content[:1] != b"{":
        return content  # Empty, or Avro in layout 1 already.
    is_replace = action.completes_as is Action.REPLACECOMMIT
    try:
        metadata = read_json(content)
        return encode_record(REPLACE_COMMIT_METADATA if is_replace else COMMIT_METADATA, metadata)
    except (ValueError, TypeError, AttributeError) as error:
        raise MalformedTable("commit metadata cannot be carried over", action=action) from error
