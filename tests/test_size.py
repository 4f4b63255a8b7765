"""`make size`: what it counts, and in which package."""

from __future__ import annotations

from collections import Counter

from tests.support.size import Size, format_table, measure_packages


def test_files_are_counted_in_their_package() -> None:
    files = [
        ("workers/storage/base.py", "line\n" * 60),
        ("workers/storage/deep/local.py", "line\n" * 59),
        ("workers/clock.py", "line\n"),
        ("web/pages/home.py", "line\n" * 70),
        ("manage.py", "line\n"),
    ]
    hits = {"workers/storage/base.py": Counter({"L1": 2, "N1": 1})}

    sizes = measure_packages(files, hits)

    assert sizes == {
        "web": Size(1, 70, 0, 0),
        "workers": Size(1, 1, 1, 0),
        "workers/storage": Size(2, 119, 1, 3),
    }
    assert list(format_table(sizes))[-1].split() == ["total", "4", "190", "2", "3"]
