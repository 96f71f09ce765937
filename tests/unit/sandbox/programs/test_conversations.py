"""The argument lists that are a shell into which a user types."""

from __future__ import annotations

import pytest

from actions.sandbox.programs.shell.shell import is_interactive, without_env


@pytest.mark.parametrize(
    "argv", [["sh"], ["/bin/bash"], ["sh", "-c", "command -v bash >/dev/null && exec bash || exec sh"]]
)
def test_a_shell_and_a_script_that_becomes_one_are_conversations(argv: list[str]) -> None:
    assert is_interactive(argv)


@pytest.mark.parametrize("argv", [["sh", "-c", "exec nvidia-smi"], ["sh", "-c", "echo exec sh; true"], ["nvidia-smi"]])
def test_a_script_and_a_program_are_not(argv: list[str]) -> None:
    assert not is_interactive(argv)


def test_env_is_taken_off_a_program() -> None:
    assert without_env(["env", "TERM=linux", "LC_ALL=C.UTF-8", "sh", "-c", "ls"]) == ["sh", "-c", "ls"]
    assert without_env(["env"]) == ["env"]
