"""Filters typed after `/`: words, expressions, loose words, selectors."""

from __future__ import annotations

import pytest

from actions.base.errors import ParameterError
from tui.settings.filters import RowFilter, parse_filter, selectors_as_typed

ROWS = ("work train-worker-0 Running", "work train-worker-10 Failed", "other web /dev/nvidia0")


def shown(text: str) -> list[int]:
    found = parse_filter(text)
    return [place for place, row in enumerate(ROWS) if found.matches(row, row.lower())]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", [0, 1, 2]),
        ("WORK train", [0, 1]),
        ("!work", [2]),
        ("!", []),
        ("/worker-\\d$/", []),
        ("/worker-\\d\\s/", [0]),
        ("/worker-[0-9]+ (run|fail)/ !failed", [0]),
        ("!/worker-\\d+/", [2]),
        ("/failed/", [1]),
        ("/FAILED/", []),
        ("/dev/nvidia", [2]),
        ("-f twk0", [0, 1]),
        ("-f trnwk10", [1]),
        ("-f xyz", []),
    ],
)
def test_rows_pass_all_terms(text: str, places: list[int]) -> None:
    assert shown(text) == places


def test_selectors_are_for_the_server_and_the_rest_is_for_the_rows() -> None:
    found = parse_filter("-l app=web fast -F status.phase=Running -l tier!=db")
    assert (found.labels, found.fields, found.text) == ("app=web,tier!=db", "status.phase=Running", "fast")
    assert found.has_selectors
    assert not parse_filter("fast").has_selectors
    assert parse_filter("  ") == RowFilter()


@pytest.mark.parametrize(
    ("text", "labels", "fields", "rest"),
    [
        ("-l 'tier in (web, db), !canary' fast", "tier in (web, db), !canary", "", "fast"),
        ('fast -l "tier notin (web)" -F metadata.name=x', "tier notin (web)", "metadata.name=x", "fast"),
        ("-l tier in (web, db) fast", "tier in (web, db)", "", "fast"),
        ("-l tier in (web, db),app=x fast", "tier in (web, db),app=x", "", "fast"),
        ("-l in fast", "in", "", "fast"),
        ("-l app=web in it", "app=web", "", "in it"),
        ("it's fast", "", "", "it's fast"),
    ],
)
def test_a_selector_may_have_spaces_and_is_shown_as_it_is_read(text: str, labels: str, fields: str, rest: str) -> None:
    found = parse_filter(text)
    assert (found.labels, found.fields, found.text) == (labels, fields, rest)
    assert parse_filter(f"{selectors_as_typed(labels, fields)} {rest}") == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("/[a/", r"/\[a/ cannot be read as a regular expression: missing \]"),
        ("!/(?=x)/", "look-around is not allowed"),
        ("-l", "nothing after -l"),
        ("web -f", "nothing after -f"),
        ("-l ''", "nothing after -l"),
        ("-l 'tier in (a", "The quote after -l is not closed"),
        ("-l 'tier in (a'", r"A parenthesis in the selector 'tier in \(a' is not closed"),
        ("-l 'tier in (a, (b)'", "is not closed"),
        ("-l 'tier in a)'", "closes nothing"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text: str, reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        parse_filter(text)
