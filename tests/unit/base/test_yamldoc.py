"""YAML that people write is read strictly, with places."""

from __future__ import annotations

import pytest
import yaml

from actions.base.errors import BlueprintError, InputError
from actions.base.yamldoc import load_document, load_documents


def value(text: str) -> object:
    return load_document(text.encode(), file="f.yaml").value


def test_words_stay_words() -> None:
    assert value("{a: no, b: on, c: 0755, d: '1', e: 12:30}") == {
        "a": "no",
        "b": "on",
        "c": "0755",
        "d": "1",
        "e": "12:30",
    }


def test_numbers_booleans_and_nothing_are_read() -> None:
    assert value("[1, -2, 1.5, 1e3, true, null, ~, 0x10]") == [1, -2, 1.5, 1000.0, True, None, None, 16]


def test_places_are_known_down_to_the_key() -> None:
    document = load_document(b"a:\n  - b: 1\n    c: 2\n", file="f.yaml")
    assert document.position("a", 0, "c") == (3, 5)
    assert document.error(BlueprintError, "odd.", "a", 0, "c").message == "f.yaml:3:5: odd."
    assert document.position("a", 9) == (1, 1)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: &x {b: *x}", "f.yaml:1:11"),
        ("a: &x 1\n---\nb: *x", "f.yaml:3:4"),
        ("a: 1\nb: 2\na: 3", "f.yaml:3:1"),
        ("a: [1", "f.yaml:"),
        ("a: !!python/object:os.system x", "f.yaml:1"),
        ("? [a]\n: b", "f.yaml:1"),
        ("a:\n  <<: {b: 1}", "f.yaml:2:3"),
        ("[" * 200 + "]" * 200, "f.yaml"),
    ],
)
def test_what_is_dangerous_or_ambiguous_is_refused(text: str, place: str) -> None:
    with pytest.raises(InputError) as caught:
        value(text)
    assert caught.value.message.startswith(place)


def test_aliases_repeat_what_their_anchors_have_without_sharing_it() -> None:
    found = value("a: &x {b: [1, &y z]}\nc: *x\nd: *y\n")
    assert found == {"a": {"b": [1, "z"]}, "c": {"b": [1, "z"]}, "d": "z"}
    assert isinstance(found, dict)
    assert found["a"]["b"] is not found["c"]["b"]


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)),
        f"a: &a {'x' * 200_000}\nb: [*a, *a, *a, *a, *a, *a]",
        f"a: &a {'[' * 60 + ']' * 60}\nb: {'[' * 60}*a{']' * 60}",
    ],
)
def test_what_aliases_repeat_is_bounded(text: str) -> None:
    with pytest.raises(
        InputError, match=r"f\.yaml:\d+:\d+: aliases repeat more than 1048576 bytes, or deeper than 100"
    ):
        value(text)


def test_a_tab_is_named() -> None:
    with pytest.raises(InputError, match=r"f\.yaml:2:1: not valid YAML") as caught:
        value("a:\n\tb: 1\n")
    assert caught.value.hint == "Indent with blanks: a tab stands there."


def test_deep_nesting_and_size_are_bounded() -> None:
    with pytest.raises(InputError, match=r"deep|nesting depth"):
        value("[" * 20_000)
    with pytest.raises(InputError, match="limit"):
        value("a: " + "x" * 2_000_000)


def test_several_documents_and_empty_ones() -> None:
    documents = load_documents(b"---\na: 1\n---\n---\nb: 2\n", file="f.yaml")
    assert [document.value for document in documents] == [{"a": 1}, {"b": 2}]
    assert documents[1].position("b") == (5, 1)


def test_what_is_not_utf8_is_said_with_its_line() -> None:
    with pytest.raises(InputError, match=r"f\.yaml:2: the file is not UTF-8"):
        load_document(b"a: 1\nb: \xff\n", file="f.yaml")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: 1\na: 2\nb: [1", "f.yaml:4:1: not valid YAML"),
        ("a: 1\na: 2\nb: &x 1", "f.yaml:2:1"),
        ("a: 1\na: 2\n---\nb: [1", "f.yaml:2:1"),
    ],
)
def test_what_is_not_yaml_is_reported_before_what_is_wrong_in_it(text: str, place: str) -> None:
    with pytest.raises(InputError) as caught:
        value(text)
    assert caught.value.message.startswith(place)


@pytest.mark.parametrize("deep", ["[" * 500, "a: 1\nb: " + "[" * 500, "- " * 100_000 + "a"])
def test_a_file_nested_deeply_is_refused_where_it_is_too_deep(deep: str) -> None:
    with pytest.raises(InputError, match=r"f\.yaml:[12]:\d+: nested more than 100 deep"):
        value(deep)


def test_no_more_is_parsed_of_what_is_nested_deeply_after_something_wrong() -> None:
    with pytest.raises(InputError, match=r"f\.yaml:2:1: the key 'a' is repeated"):
        value("a: 1\na: " + "[" * 500)


def test_the_parser_in_python_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: [1, 0x1f, .5, no, '1', ~, '', !!str 2]\nb:\n  - c: |\n      d\n    '': true\n---\n- 1\n"
    fast = [(one.value, one.position("b", 0, ""), one.position(0)) for one in load_documents(text.encode(), file="f")]
    monkeypatch.setattr("actions.base.yamldoc._Events", yaml.SafeLoader)
    slow = [(one.value, one.position("b", 0, ""), one.position(0)) for one in load_documents(text.encode(), file="f")]
    assert fast == slow
    with pytest.raises(InputError, match=r"f\.yaml: not valid YAML"):
        value("a: \x01")
