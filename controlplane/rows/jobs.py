"""What the process that reads rows is told, and the names of what it answers. Both sides import it;
it knows neither Django nor the engine.
"""

from __future__ import annotations

from typing import Final, Literal

Kind = Literal["scan", "plan", "history", "commit", "moments"]
ROWS_MAX: Final = 10_000
"""Of one answer."""
VERSIONS_MAX: Final = 50
"""Of one row."""
COMMIT, KEY, PARTITION = "_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path"
ROW_MARKS: Final = (COMMIT, KEY, PARTITION)
"""What each row of a scan begins with."""
TYPES: Final = b"sluice.types"
"""In the metadata of an answer's schema: the schema of the table's columns, as Arrow writes it."""
NULLS: Final = b"sluice.nulls"
"""In the metadata of a plan's schema: JSON, null values by column."""
SLICES_MAX: Final = 200
"""File slices that a plan lists."""
GROUPS: Final = b"sluice.groups"
"""In the metadata of a commit's changes: JSON of the file groups that it touched."""
GROUPS_MAX: Final = 200
"""File groups of one commit that are listed."""
