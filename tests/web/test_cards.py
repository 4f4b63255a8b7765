"""Cells say the names of their columns, so that a phone can show lines as cards."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from web.cards import with_labels

HEAD = '<thead><tr><th scope="col">Table</th><th class="num">Rows</th><th></th></tr></thead>'


def test_cells_are_named_by_their_heads_and_a_line_by_its_own() -> None:
    line = '<tr><th scope="row">trips</th><td class="num">3</td><td><a>open</a></td></tr>'

    labelled = with_labels(f"<table>{HEAD}<tbody>{line}</tbody></table>")

    assert "<table data-cards>" in labelled
    assert '<td data-label="Rows" class="num">3</td><td><a>open</a></td>' in labelled
    assert '<th scope="row">trips' in labelled


def test_a_name_is_text_whatever_its_markup_says() -> None:
    head = '<thead><tr><th><a href="?sort=a">A &lt;b&gt; "c"</a><kbd>x</kbd></th></tr></thead>'

    labelled = with_labels(f"<table class='t'>{head}<tbody><tr><td>1</td></tr></tbody></table>")

    assert '<td data-label="A &lt;b&gt; &quot;c&quot;">1' in labelled


@pytest.mark.parametrize(
    "kept",
    [
        f'<table class="matrix">{HEAD}<tbody><tr><td>1</td></tr></tbody></table>',
        f'<table class="x heat-table">{HEAD}<tbody><tr><td>1</td></tr></tbody></table>',
        "<table><tbody><tr><td>1</td></tr></tbody></table>",
        "<table><thead><tr><th>a</th></tr><tr><th>b</th></tr></thead><tr><td>1</td></tr></table>",
        "no table, but <td> and </table>",
    ],
)
def test_what_is_no_list_of_lines_stays(kept: str) -> None:
    assert with_labels(kept) == kept


def test_a_line_across_all_columns_has_no_name_and_the_next_table_starts_anew() -> None:
    body = '<tbody><tr><td colspan="3">none</td></tr></tbody>'
    other = "<table><thead><tr><th>Key</th></tr></thead><tr><td>k</td></tr></table>"

    labelled = with_labels(f"<table>{HEAD}{body}</table> {other}")

    assert '<td colspan="3">none' in labelled
    assert '<td data-label="Key">k' in labelled


@pytest.mark.django_db
def test_pages_go_out_with_names(admin: User, as_admin: Client) -> None:
    html = as_admin.get("/alerts/thresholds").content.decode()

    assert "data-cards" in html
    assert 'data-label="' in html
