"""Windows and changes of random histories, between all completion times: over table types, indexes,
kinds of rows, moves between partitions, overwrites, overtaken writers and services.
"""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from tests.support.change_reader import Pages
from tests.support.keyed_streams import CLICK, SCHEMA, SHOWN, UPDATE
from tests.support.sampling import story_seed
from tests.support.scenario_table import (
    READINGS,
    Row,
    ScenarioTable,
    ScenarioTables,
    ScenarioWriter,
)
from tests.support.table_services import run
from workers.concurrency.outcome import Committed, Conflicted
from workers.options.index_kind import IndexKind

KEYS = tuple("abcdef")
PLACES = ("oslo", "rome", "turku")
INDEXES = ("BUCKET", "SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM")
DIRECT = {"hoodie.write.markers.type": "direct", "hoodie.parquet.small.file.limit": "0"}
PARTIAL = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
ARCHIVE = {"min_commits": "2", "max_commits": "3", "uncompacted_logs": "true"}
STEPS = 8


class Story:
    """A table and what happens to it, drawn by a number."""

    def __init__(self, tables: ScenarioTables, number: int) -> None:
        self.draw = draw = random.Random(story_seed(number))
        self.kind = draw.choice(["whole", "whole", "partial", "groups"])
        self.index = "BUCKET" if self.kind == "groups" else draw.choice(INDEXES)
        self.is_mor = draw.random() < 0.6
        self.moves = self.kind == "groups" or self.index.startswith("GLOBAL")
        self.place = "day" if self.kind == "groups" else "place"
        self.stamp = 0
        self.homes = {key: draw.choice(PLACES) for key in KEYS}
        """Where new rows go in tables whose rows do not move."""
        self.table = self._made(tables)
        self.pages = Pages(self.table)
        self.steps_taken: list[str] = []

    def _made(self, tables: ScenarioTables) -> ScenarioTable:
        draw, options = self.draw, {"hoodie.index.type": self.index}
        if self.index.startswith("GLOBAL"):
            options[IndexKind(self.index).moves_key] = draw.choice(["true", "true", "false"])
        if self.index == "BUCKET":
            options["hoodie.bucket.index.num.buckets"] = draw.choice(["1", "2"])
        if self.kind == "groups":
            options |= {"hoodie.multistream.groups": json.dumps([SHOWN, CLICK]), UPDATE: "move"}
        ordering = ["ts"] if self.kind != "groups" and draw.random() < 0.6 else []
        if self.kind == "partial":
            ordering = ordering if self.is_mor else []
            options |= PARTIAL
            if not ordering:
                options["hoodie.record.merge.mode"] = "COMMIT_TIME_ORDERING"
        table = tables(
            table_type="MERGE_ON_READ" if self.is_mor else "COPY_ON_WRITE",
            schema=SCHEMA if self.kind == "groups" else READINGS,
            partition_by=[self.place],
            ordering=ordering,
            options=options,
        )
        table.excuse_referee("hudi-rs sees no logs of archived commits, and folds late rows less")
        return table

    def play(self) -> None:
        self._upsert(4)
        self.pages.note()
        for _ in range(STEPS):
            step = self.draw.choice(self._steps())
            self.steps_taken.append(step.__name__)
            step()
            self.pages.note()

    def _steps(self) -> list[Any]:
        steps = [self._upsert, self._upsert, self._upsert, self._delete, self._cluster]
        steps += [self._overwrite, self._overwrite_table, self._delete_partition, self._archive]
        if self.is_mor:
            steps += [self._compact, self._compact]
        if self.is_mor and self.index == "BUCKET":
            steps += [self._overtaken, self._overtaken, self._overtaken]
        return steps

    def _now(self) -> dict[str, str]:
        return {row["id"]: row[self.place] for row in self.table.rows()}

    def _row(self, key: str, place: str) -> Row:
        self.stamp += 1
        draw = self.draw
        if self.kind == "groups":
            group = draw.choice([SHOWN, CLICK])
            ages, columns = group["ordering"], group["columns"]
            return {"id": key, "day": place, ages[0]: draw.randrange(6), columns[0]: self.stamp}
        row: Row = {"id": key, "place": place, "ts": draw.randrange(4)}
        if self.kind == "whole" or draw.random() < 0.6:
            row["value"] = self.stamp
        if self.kind == "whole" or "value" not in row:
            row["note"] = str(self.stamp)
        return row

    def _rows(self, most: int) -> list[Row]:
        draw = self.draw
        keys = draw.sample(KEYS, draw.randint(1, most))
        return [
            self._row(key, draw.choice(PLACES) if self.moves else self.homes[key]) for key in keys
        ]

    def _write(self, operation: str, rows: list[Row]) -> None:
        outcome = self.table.lakehouse.write(self.table.batch(rows), operation, options=DIRECT)
        assert isinstance(outcome, Committed), outcome

    def _upsert(self, most: int = 3) -> None:
        self._write("upsert", self._rows(most))

    def _overtaken(self) -> None:
        late = self._begun("late")
        for number in range(self.draw.randint(1, 2)):
            if isinstance(self._begun(f"rival{number}").commit(), Conflicted):
                self.steps_taken.append("(the rival lost)")
        if isinstance(late.commit(), Conflicted):
            self.steps_taken.append("(lost)")

    def _begun(self, name: str) -> ScenarioWriter:
        writer, rows = self.table.writer(name, mode="non-blocking"), self._rows(3)
        if self.kind == "groups" or self.draw.random() < 0.6:
            return writer.upsert(*rows)
        wider = READINGS.append(pa.field("weight", pa.int64()))
        return writer.upsert(*(one | {"weight": self.stamp} for one in rows), schema=wider)

    def _delete(self) -> None:
        now = self._now()
        if now:
            keys = self.draw.sample(sorted(now), self.draw.randint(1, min(2, len(now))))
            named = pa.table({"id": keys, self.place: [now[key] for key in keys]})
            self.table.lakehouse.delete(named, options=DIRECT)

    def _overwrite(self) -> None:
        now, place = self._now(), self.draw.choice(PLACES)
        homes = {} if self.moves else self.homes
        keys = [key for key in KEYS if now.get(key, homes.get(key, place)) == place]
        if keys:
            chosen = self.draw.sample(keys, self.draw.randint(1, len(keys)))
            self._write("insert_overwrite", [self._row(key, place) for key in chosen])

    def _overwrite_table(self) -> None:
        keys = self.draw.sample(KEYS, self.draw.randint(1, 5))
        self.homes |= {key: self.draw.choice(PLACES) for key in keys}
        self._write("insert_overwrite_table", [self._row(key, self.homes[key]) for key in keys])

    def _delete_partition(self) -> None:
        if places := sorted(set(self._now().values())):
            self.table.lakehouse.delete_partition([self.draw.choice(places)], options=DIRECT)

    def _cluster(self) -> None:
        self.table.lakehouse.cluster(["id"], options=DIRECT)

    def _compact(self) -> None:
        run(self.table.table, "compaction", **{"hoodie.compact.inline.max.delta.commits": "1"})

    def _archive(self) -> None:
        run(self.table.table, "archive", **ARCHIVE)


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("number", range(40))
def test_consumer_of_windows_and_changes_has_the_rows_of_each_snapshot(
    tables: ScenarioTables, number: int
) -> None:
    story = Story(tables, number)
    story.play()

    times = story.pages.times
    borders = [*pairwise(times)]
    for _ in range(3):
        first, last = sorted(story.draw.sample(range(len(times)), 2))
        borders.append((times[first], times[last]))
    for since, until in [*borders, (times[0], times[-1])]:
        try:
            story.pages.check(since, until)
        except AssertionError as error:
            config = story.table.table.config
            error.add_note(f"{story.kind} {story.index} {config.table_type} {config.ordering}")
            error.add_note(f"{story.steps_taken} of {len(times)} times, {since} to {until}")
            raise
