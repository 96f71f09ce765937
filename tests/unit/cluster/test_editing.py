"""Objects as text, and back."""

from __future__ import annotations

from typing import Any

import pytest

from actions.base.errors import InputError
from actions.cluster.objects.editing import (
    changed,
    changes_between,
    editable_text,
    parse_edited,
    without_managed_fields,
)

OBJECT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings", "creationTimestamp": "2026-11-21T10:00:00Z", "managedFields": [{"manager": "x"}]},
    "data": {
        "octal": "0755", "float": "1e3", "underscore": "1_000", "hex": "0x1f", "yes": "yes", "null": "null",
        "empty": "",
        "tilde": "~", "dots": "...", "dash": "- a", "colon": "a: b", "hash": "a # b", "lines": "one\n  two\n",
        "tab": "a\tb",
        "escape": "\x1b[31m", "unicode": "größer", "time": "12:30:45", "plus": "+1", "infinity": ".inf",
    },
    "spec": {"replicas": 3, "share": 0.5, "paused": False, "nothing": None, "list": [{"a": 1}, "b", []], "map": {}},
}  # fmt: skip


def test_every_value_comes_back_as_it_was_without_managed_fields() -> None:
    text = editable_text(OBJECT, ("It was refused: x",))
    assert parse_edited(text) == without_managed_fields(OBJECT)
    assert "managedFields" not in text
    assert "# It was refused: x\n" in text


def test_equal_parts_are_written_out_and_not_referred_to() -> None:
    shared = {"a": 1}
    assert parse_edited(editable_text({"one": shared, "two": shared})) == {"one": {"a": 1}, "two": {"a": 1}}


def test_only_comments_mean_that_nothing_is_to_be_done() -> None:
    assert parse_edited("# nothing\n\n") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [("a: [", "the edited text:"), ("a: 1\n---\nb: 2\n", "second one"), ("- a\n", "not an object")],
)
def test_what_is_no_object_is_refused_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_edited(text)


def test_changes_put_on_what_they_came_from_give_what_was_wanted() -> None:
    wanted = {"spec": {"replicas": 5, "list": ["b"], "map": {"x": "y"}}, "data": {"octal": "0755"}, "kind": "ConfigMap"}
    patch = changes_between(OBJECT, wanted)
    assert changed(OBJECT, patch) == wanted
    assert changes_between(OBJECT, OBJECT) == {}


def test_changes_of_others_stay_where_ours_are_elsewhere() -> None:
    ours = changes_between({"spec": {"replicas": 2}}, {"spec": {"replicas": 5}})
    assert changed({"spec": {"replicas": 3, "paused": True}}, ours) == {"spec": {"replicas": 5, "paused": True}}
