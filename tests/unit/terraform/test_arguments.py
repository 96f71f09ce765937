"""Argument lists: what they must have, and what they must never have."""

from __future__ import annotations

from pathlib import Path

from actions.terraform import arguments

PROGRAM = Path("/opt/terraform")


def test_operations_ask_nothing_and_write_events() -> None:
    for argv in (
        arguments.plan_arguments(PROGRAM),
        arguments.apply_arguments(PROGRAM),
        arguments.destroy_arguments(PROGRAM),
    ):
        assert argv[0] == str(PROGRAM)
        assert {"-json", "-input=false", "-no-color"} <= set(argv)
        assert not any(word.startswith(("-var=", "-target", "-force")) for word in argv)


def test_an_apply_takes_the_saved_plan_last() -> None:
    argv = arguments.apply_arguments(PROGRAM)
    assert argv[-1] == "run.tfplan"
    assert "-auto-approve" not in argv


def test_a_lock_file_is_obeyed() -> None:
    assert "-lockfile=readonly" in arguments.init_arguments(PROGRAM, has_lock_file=True)
    assert not any("lockfile" in word for word in arguments.init_arguments(PROGRAM, has_lock_file=False))
