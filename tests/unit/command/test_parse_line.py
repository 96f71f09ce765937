"""The `:` line and YAML values decode into the same typed arguments."""

from __future__ import annotations

import pytest

from actions.base.errors import ConsoleError, MissingError, ParameterError, nearest_hint
from actions.command.arguments import (
    FilterArguments,
    KindArguments,
    LaunchArguments,
    OpenArguments,
    TeardownArguments,
)
from actions.command.parse import complete, decode, parse_line, parse_typed
from actions.command.verbs import (
    COMMANDS,
    Danger,
    command_of,
)


def test_the_first_word_is_the_positional_argument_and_the_rest_are_parameters() -> None:
    call = parse_line("launch bionemo-esm1nv preset=short workers=2")
    assert call.arguments == LaunchArguments(blueprint="bionemo-esm1nv", preset="short", set={"workers": "2"})


def test_short_words_of_k9s_work() -> None:
    assert parse_line("no").arguments == OpenArguments(pane="nodes")
    assert parse_line("q").command.id == "quit"


def test_a_switch_is_read_from_text_on_the_line_only() -> None:
    assert parse_line("teardown x delete_data=true").arguments == TeardownArguments(confirm="x", delete_data=True)
    with pytest.raises(ParameterError, match="delete_data"):
        decode(command_of("teardown"), {"delete_data": "true"})


def test_a_single_value_stands_for_the_positional_argument() -> None:
    assert decode(command_of("open"), "nodes") == OpenArguments(pane="nodes")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("lunch x", "Did you mean launch?"),
        ("launch", "launch needs blueprint"),
        ("open window", "not one of accelerators"),
        ("zoom now", "cannot use 'now'"),
        ("launch 'x", "Close the quotes"),
        ("", "Nothing to do"),
        ("teardown x delete_data=perhaps", "delete_data: neither true nor false."),
        ("resize left 0", "cells: not a whole number, or too small."),
        ("resize left many", "cells: not a whole number."),
    ],
)
def test_a_mistake_is_one_sentence(line: str, words: str) -> None:
    with pytest.raises(ConsoleError) as caught:
        parse_line(line)
    assert words in caught.value.sentence()
    assert "\n" not in caught.value.sentence()


def test_where_there_is_no_name_none_is_listed() -> None:
    assert nearest_hint("mine", []) == "There is none yet."


def test_an_unknown_command_is_missing_not_a_guess() -> None:
    with pytest.raises(MissingError):
        command_of("deploy")


def test_completion_knows_commands_values_and_names() -> None:
    assert complete("lau", {}) == ("launch",)
    assert complete("launch bi", {"blueprint": ["bionemo-esm1nv", "nemo"]}) == ("launch bionemo-esm1nv",)
    assert complete("drain n", {"object": ["ns/pod"], "drain object": ["n1", "m1"]}) == ("drain n1",)
    assert complete("launch x pre", {}) == ("launch x preset=",)
    assert complete("open ", {"pane": ["nodes", "pods"]})[:2] == ("open nodes", "open pods")
    runs = {"open run of": ["train", "r-1"], "of": ["other"], "open pods of": ["node-1"]}
    assert complete("open run of=", runs) == ("open run of=train", "open run of=r-1")
    assert complete("run r", runs) == ("run r-1",)
    assert complete("open pods n", runs) == ("open pods node-1",)
    assert complete("logs previous=", {}) == ("logs previous=true",)
    assert complete("delete pod/x propagation=o", {}) == ("delete pod/x propagation=orphan",)
    assert complete("layout w", {}) == ("layout watch",)
    assert complete("resize l", {}) == ("resize left",)
    assert complete("split right p", {"pane": ["nodes", "pods"]}) == ("split right pods", "split right pane=")


def test_whatever_changes_the_world_says_so() -> None:
    for command in COMMANDS:
        assert command.help.endswith(".") or command.help.endswith("…"), command.id
        if command.danger is not Danger.NONE:
            assert command.is_mutation, command.id


def test_a_call_shows_only_what_was_said() -> None:
    assert parse_line("launch x preset=short").values() == {"blueprint": "x", "preset": "short"}


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("pvc", {"kind": "pvc"}),
        ("jobs training", {"kind": "jobs", "namespace": "training"}),
        ("queues.scheduling.volcano.sh", {"kind": "queues.scheduling.volcano.sh"}),
        ("deploy all labels=app=web", {"kind": "deploy", "namespace": "all", "labels": "app=web"}),
    ],
)
def test_a_word_that_is_no_command_is_a_kind(line: str, values: dict[str, str]) -> None:
    call = parse_typed(line, lambda _: False)
    assert (call.command.id, call.values()) == ("objects", values)


def test_a_command_stays_a_command_and_a_misspelt_one_is_no_kind_unless_the_cluster_serves_it() -> None:
    assert parse_typed("pods node-1", lambda _: True).values() == {"pane": "pods", "of": "node-1"}
    assert parse_typed("ns work", lambda _: True).values() == {"namespace": "work"}
    with pytest.raises(MissingError, match="teardwon"):
        parse_typed("teardwon", lambda _: False)
    assert parse_typed("teardowns", lambda word: word == "teardowns").values() == {"kind": "teardowns"}


def test_kinds_and_namespaces_are_completed() -> None:
    choices = {"kind": ["persistentvolumeclaims", "pods"], "namespace": ["all", "training"]}
    assert complete("pers", choices) == ("persistentvolumeclaims",)
    assert complete("po", choices) == ("pods",)
    assert complete("jobs tr", choices) == ("jobs training",)
    assert complete("ns a", choices) == ("ns all",)


def test_kubectls_flags_set_what_they_mean() -> None:
    call = parse_line("objects pods -l 'tier in (web, db)' -F status.phase=Running -n ml")
    assert call.arguments == KindArguments(
        kind="pods", namespace="ml", labels="tier in (web, db)", fields="status.phase=Running"
    )
    with pytest.raises(ParameterError, match="objects has nothing after -l"):
        parse_line("objects pods -l")


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("logs --previous", {"previous": True}),
        ("logs -p ml/worker-0 -c main", {"object": "ml/worker-0", "container": "main", "previous": True}),
        ("logs ml/worker-0 --since=10m --tail 50", {"object": "ml/worker-0", "since": "10m", "tail": 50}),
        ("drain node-1 --even-if-lost", {"object": "node-1", "even_if_lost": True}),
        ("launch x --workers=2 --set steps=5", {"blueprint": "x", "set": {"workers": "2", "steps": "5"}}),
        ("search --nproc", {"pattern": "--nproc"}),
        ("only -worker-1,-worker-2", {"pods": "-worker-1,-worker-2"}),
        ("only -- -w", {"pods": "-w"}),
        ("logs ml/worker-0 --previous false", {"object": "ml/worker-0"}),
    ],
)
def test_flags_are_written_as_on_a_command_line(line: str, values: dict[str, object]) -> None:
    assert parse_line(line).values() == values


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("logs --prevous", "logs has no --prevous. Usage: logs [OBJECT]"),
        ("logs -n ml worker-0", "logs has no -n."),
        ("logs --since", "logs has nothing after --since."),
        ("launch x --yes workers=2", "launch has nothing after --yes."),
    ],
)
def test_a_flag_is_no_name_of_an_object(line: str, sentence: str) -> None:
    with pytest.raises(ParameterError) as caught:
        parse_line(line)
    assert caught.value.sentence().startswith(sentence)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("filter -l 'tier in (web, db)' fast", "-l 'tier in (web, db)' fast"),
        ("filter it's fast", "it's fast"),
        ("filter 'a b'", "a b"),
        ("filter text=web", "web"),
        ("filter", ""),
    ],
)
def test_the_text_of_a_filter_is_all_that_stands_behind_it(line: str, text: str) -> None:
    assert parse_line(line).arguments == FilterArguments(text=text)


def test_completion_goes_by_what_an_argument_names_not_by_its_name() -> None:
    choices = {
        "context": ["bionemo-on-eks"],
        "run": ["a-1", "b-2"],
        "other run": ["b-2"],
        "launch bio preset": ["rehearsal"],
        "launch bio set": ["workers"],
    }
    assert complete("ctx ", choices) == ("ctx bionemo-on-eks",)
    assert complete("launch bio preset=", choices) == ("launch bio preset=rehearsal",)
    assert complete("launch bio wor", choices) == ("launch bio workers=",)
    assert complete("compare ", choices)[:1] == ("compare b-2",), "the run on screen is compared already"
    assert complete("resume ", choices)[:2] == ("resume a-1", "resume b-2")


def test_a_wrong_or_missing_theme_is_told_once_and_with_those_that_there_are() -> None:
    with pytest.raises(ParameterError, match=r"^theme: 'nope' is not one of "):
        parse_line("theme nope")
    with pytest.raises(ParameterError, match=r"^theme needs one of dark, high-contrast, light, transparent\.$"):
        parse_line("theme")


def test_curves_are_the_charts() -> None:
    assert parse_line("curves").values() == {"pane": "charts"}
