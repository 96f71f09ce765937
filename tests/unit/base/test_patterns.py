"""Regular expressions of people, in bounded time; names, and what they become in a path."""

from __future__ import annotations

import pytest

from actions.base.errors import RefusedError
from actions.base.names import is_label, is_segment, is_subdomain, require_path, segment
from actions.base.patterns import LONGEST_TEXT, PatternError, compile_pattern


@pytest.mark.parametrize("pattern", ["(a|a)*$", "(a+)+$", "(.*a){20}$", "(x+x+)+y"])
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    assert compile_pattern(pattern).fullmatch("a" * 1000 + "!") is False
    compile_pattern(pattern).search("ax" * 20_000 + "!")


@pytest.mark.parametrize("pattern", ["(", "[", "*a", "(?=a)", r"(a)\1", "a" * 1001, r"\p{L}" * 190, "\ud800"])
def test_what_is_no_pattern_or_too_much_is_an_error(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)


def test_patterns_find_what_they_say() -> None:
    assert compile_pattern(r"step \d+").search("at step 12 of 20")
    assert not compile_pattern(r"^step").search("at step 12")
    assert compile_pattern("[a-z0-9-]+").fullmatch("cr-0a1b")
    assert not compile_pattern("[a-z]+").fullmatch("abc1")
    assert compile_pattern("ü.*ß").search("Grüße")
    assert not compile_pattern("a").search("\udcff")


def test_of_a_very_long_text_both_ends_are_seen() -> None:
    text = "begin" + "x" * (4 * LONGEST_TEXT) + "end"
    assert compile_pattern("^begin").search(text)
    assert compile_pattern("end$").search(text)
    assert not compile_pattern("x+").fullmatch("x" * (LONGEST_TEXT + 1))


@pytest.mark.parametrize(
    ("name", "forms"),
    [
        ("default", (True, True, True)),
        ("a.b-c.d0", (False, True, True)),
        ("system:node", (False, False, True)),
        ("A", (False, False, True)),
        ("a..b", (False, False, True)),
        ("-a", (False, False, True)),
        ("..", (False, False, False)),
        ("a/b", (False, False, False)),
        ("a%2fb", (False, False, False)),
        ("", (False, False, False)),
        ("x" * 64, (False, True, True)),
        ("a\n", (False, False, False)),
    ],
)
def test_names_have_a_form(name: str, forms: tuple[bool, bool, bool]) -> None:
    assert (is_label(name), is_subdomain(name), is_segment(name)) == forms


def test_a_segment_is_escaped_and_a_path_is_looked_at() -> None:
    assert segment("system:node a?b#ü") == "system:node%20a%3Fb%23%C3%BC"
    assert require_path("/apis/rbac/x/system:node%20a") == "/apis/rbac/x/system:node%20a"
    for path in ("/a/../b", "/a/%2E./b", "/a?b", "a/b", "/a b", ""):
        with pytest.raises(RefusedError):
            require_path(path)
