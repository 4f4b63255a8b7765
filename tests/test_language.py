"""The language ratchet: no file breaks a language rule more often than its baseline allows, and
the baseline follows each file down. New files have no baseline, so they must be clean.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter

import pytest

from tests.support.language import (
    NAMES,
    PROSE,
    count_hits,
    count_names,
    count_prose,
    describe,
    find_hits,
    find_long_sentences,
    load_baseline,
    lower_baseline,
)
from tests.support.source_files import REPOSITORY, parse_module

SUBJECTS_SINCE = "2026-11-29"
"""Commits that were written before this day keep their subjects."""
SUBJECT_CHARACTERS_MAX = 72
NO_VERB_OF_CHANGE = re.compile(
    r"[^:]+: (?:Let|Say|Tell|Name|Keep|Hold|Hear|Draw|Count|Know|Give|Take|Ask|Put|Call|Try|Look"
    r"|Prove|See|Word)\b"
)


def test_no_file_breaks_a_language_rule_more_often_than_its_baseline() -> None:
    baseline = load_baseline()
    risen = [
        "\n    ".join(
            [
                f"{name}: {rule}: {count} hits, {allowed} allowed; {describe(rule)}",
                *(f"{line}: {text}" for line, text in _find_lines(rule, name)),
            ]
        )
        for name, counts in count_hits().items()
        for rule, count in sorted(counts.items())
        if count > (allowed := baseline.get(name, {}).get(rule, 0))
    ]

    assert not risen, "\n".join(["", *risen, "(after a rename: make language MOVED=old=new)"])


def test_the_baseline_is_as_low_as_the_files_are() -> None:
    baseline = load_baseline()
    lowered = lower_baseline(baseline, count_hits(), {})
    higher = [name for name in baseline if baseline[name] != lowered.get(name)]

    assert not higher, f"these files improved: run `make language` and commit its change: {higher}"


def test_subjects_of_commits_say_what_changes() -> None:
    log = subprocess.run(
        ["git", "log", "--no-merges", "--max-count=500", "--format=%as %s"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
        text=True,
    )
    if log.returncode != 0:
        pytest.skip("this is not a git checkout, so there are no commit subjects to check")
    written = [line.split(" ", 1) for line in log.stdout.splitlines()]
    unclear = [
        subject
        for day, subject in written
        if day >= SUBJECTS_SINCE
        and (len(subject) > SUBJECT_CHARACTERS_MAX or NO_VERB_OF_CHANGE.match(subject))
    ]

    assert unclear == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("L1", "Whoever writes it"),
        ("L2", "somebody wrote"),
        ("L3", "as he likes"),
        ("L4", "read anew"),
        ("L5", "takes the commit back"),
        ("L6", "once more"),
        ("L7", "this is no cursor"),
        ("L8", "there is not any more"),
        ("L9", "Of all tables"),
        ("L10", "what others read otherwise"),
        ("L11", "a sleeper wakes"),
        ("L12", "its heart beats"),
        ("L13", "the letter stays"),
        ("L14", "what Kafka tells"),
        ("L15", "a look at the table"),
        ("L16", "where the file lies"),
        ("L17", "beside the writer"),
        ("L18", "doomed markers"),
        ("L19", "sends word of it"),
        ("L20", "hears of it"),
        ("L21", "gives it back"),
        ("L22", "by itself"),
        ("L23", "a group of people"),
        ("L24", "the only door"),
        ("L25", "the n greatest"),
        ("L26", "goes on"),
        ("L27", "meanwhile"),
        ("L28", "it is well"),
    ],
)
def test_each_rule_finds_what_it_is_for(rule: str, text: str) -> None:
    assert count_prose(text)[rule] == 1
    assert [line for line, _ in find_hits(rule, f"first line\n{text}\n")] == [2]


def test_plain_sentences_break_no_rule() -> None:
    text = "The writer is no longer alive. Letters and digits; a dead letter. There is no need."

    assert count_prose(text) == Counter()
    assert {f"L{number}" for number in range(1, 29)} == set(PROSE)


def test_each_name_rule_finds_what_it_is_for() -> None:
    source = '''"""What it is."""
def settled(given): """Return it."""
def settled_rows(): """Whether they are settled."""
def refuse_it(): ...
def may_read(): ...
def rows_of(one): ...
def seed(): ...
def load_rows():
    for one in rows_of(0):
        kept = [one for one in rows]
class C:
    @property
    def committed(self): ...
'''
    module = parse_module("web/counting.py", ast.parse(source), set())

    once = dict.fromkeys(("N1", "N2", "N4", "N5", "N6", "N8", "N9", "N10"), 1)
    assert count_names(module) == {**once, "N3": 2, "N7": 2}
    assert set(count_names(module)) == set(NAMES) - {"N11"}


def test_long_sentences_are_counted_outside_of_tables() -> None:
    long = " ".join(["word"] * 31) + "."

    assert list(find_long_sentences(f"Short.\n\n{long}\n\n| {long} |\n- {long[5:]}")) == [long]


def test_a_baseline_only_falls_and_follows_renamed_files() -> None:
    baseline = {"a.py": {"L1": 2, "N1": 1}, "old.py": {"L2": 1}, "deleted.py": {"L3": 1}}
    hits = {"a.py": Counter({"L1": 5}), "new.py": Counter({"L2": 3})}

    assert lower_baseline(baseline, hits, {}) == {"a.py": {"L1": 2}}
    assert lower_baseline(baseline, hits, {"old.py": "new.py"}) == {
        "a.py": {"L1": 2},
        "new.py": {"L2": 1},
    }


def test_a_file_that_others_were_merged_into_may_have_the_sum_of_their_hits() -> None:
    baseline = {"a.py": {"L1": 2}, "b.py": {"L1": 1, "L2": 1}}
    hits = {"a.py": Counter({"L1": 4, "L2": 1})}

    assert lower_baseline(baseline, hits, {"b.py": "a.py"}) == {"a.py": {"L1": 3, "L2": 1}}


def _find_lines(rule: str, name: str) -> list[tuple[int, str]]:
    """Return the first lines of a file that a prose rule finds; code between them may be among
    them.
    """
    if rule not in PROSE:
        return []
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    return list(find_hits(rule, text))[:10]
