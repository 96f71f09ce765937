"""`head` and `tail`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actions.sandbox.kubelet.images import exec_program
from actions.sandbox.programs.program import ProcessContext, Program
from tests.unit.sandbox.programs.containers import a_container, context, run


def _with_file(content: bytes = b"a\nb\rc\nd\n") -> ProcessContext:
    place = context(a_container())
    place.container.files.write("/fsx/log", content)
    return place


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        ("tail -n 1", "d\n"),
        ("tail -2", "b\rc\nd\n"),
        ("tail -n +2", "b\rc\nd\n"),
        ("tail -c +3", "b\rc\nd\n"),
        ("tail -c 2", "d\n"),
        ("tail --lines=1", "d\n"),
        ("head -n1", "a\n"),
        ("head -c 3", "a\nb"),
    ],
)
def test_the_asked_part_is_shown(argv: str, shown: str) -> None:
    assert run(exec_program(_with_file(), [*argv.split(), "/fsx/log"])).out == shown


def test_a_number_that_is_none_is_refused() -> None:
    outcome = run(exec_program(_with_file(), ["tail", "-n", "x", "/fsx/log"]))
    assert (outcome.exit_code, outcome.err) == (1, "tail: invalid number of lines: 'x'\n")


def _texts(program: Program) -> Iterator[str]:
    return (step.text for step in program if step.text)


def test_following_shows_what_is_appended() -> None:
    place = _with_file(b"one\n")
    shown = _texts(exec_program(place, ["tail", "-n", "+1", "-f", "/fsx/log"]))
    assert next(shown) == "one\n"
    place.container.files.append("/fsx/log", b"tw")
    assert next(shown) == "tw"
    place.container.files.append("/fsx/log", b"o\n")
    assert next(shown) == "o\n"


def test_with_retry_a_file_is_awaited_and_shown_whole() -> None:
    place = context(a_container())
    shown = _texts(exec_program(place, ["tail", "-F", "/fsx/log"]))
    assert "No such file" in next(shown)
    place.container.files.append("/fsx/log", b"one\ntwo\n")
    assert "has appeared" in next(shown)
    assert next(shown) == "one\ntwo\n"


def test_without_retry_a_missing_file_is_the_end() -> None:
    outcome = run(exec_program(context(a_container()), ["tail", "-f", "/fsx/log"]))
    assert outcome.exit_code == 1
    assert "no files remaining" in outcome.err
