"""The `:` line and YAML values decode into the same typed arguments."""

from __future__ import annotations

import pytest

from actions.base.errors import ConsoleError, MissingError, ParameterError
from actions.command.parse import complete, decode, parse_line
from actions.command.verbs import COMMANDS, Danger, LaunchArguments, OpenArguments, TeardownArguments, command_of


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
        ("teardown x delete_data=perhaps", "delete_data"),
    ],
)
def test_a_mistake_is_one_sentence(line: str, words: str) -> None:
    with pytest.raises(ConsoleError) as caught:
        parse_line(line)
    assert words in caught.value.sentence()
    assert "\n" not in caught.value.sentence()


def test_an_unknown_command_is_missing_not_a_guess() -> None:
    with pytest.raises(MissingError):
        command_of("deploy")


def test_completion_knows_commands_values_and_names() -> None:
    assert complete("lau", {}) == ("launch",)
    assert complete("launch b", {"blueprint": ["bionemo-esm1nv", "nemo"]}) == ("launch bionemo-esm1nv",)
    assert complete("launch x pre", {}) == ("launch x preset=",)
    assert complete("open ", {"pane": ["nodes", "pods"]})[:2] == ("open nodes", "open pods")


def test_whatever_changes_the_world_says_so() -> None:
    for command in COMMANDS:
        assert command.help.endswith(".") or command.help.endswith("…"), command.id
        if command.danger is not Danger.NONE:
            assert command.is_mutation, command.id


def test_a_call_shows_only_what_was_said() -> None:
    assert parse_line("launch x preset=short").values() == {"blueprint": "x", "preset": "short"}
