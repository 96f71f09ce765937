"""Every command of the command line is there."""

from __future__ import annotations

import pytest

from tui.cli.arguments import parser
from tui.cli.main import _COMMANDS, function_of


def test_every_command_that_can_be_written_has_a_module() -> None:
    actions = [action for action in parser()._actions if action.dest == "command"]
    written = {name for action in actions for name in action.choices or ()}
    assert written == {name for name in _COMMANDS if name is not None}


@pytest.mark.parametrize("command", list(_COMMANDS))
def test_every_command_has_a_function(command: str | None) -> None:
    assert callable(function_of(command))


@pytest.mark.parametrize("words", [["runs", "list"], ["--ascii", "runs", "show", "x", "-o", "json"], ["nodes"], []])
def test_a_parser_of_some_words_parses_them_as_the_whole_one(words: list[str]) -> None:
    assert vars(parser(words).parse_args(words)) == vars(parser().parse_args(words))


def test_help_is_whole_though_a_parser_is_not() -> None:
    assert parser(["--help"]).format_help() == parser().format_help()
