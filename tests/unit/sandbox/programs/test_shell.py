"""The small shell, and which program an image runs."""

from __future__ import annotations

import pytest

from actions.sandbox.kubelet.images import exec_program, program_of
from tests.unit.sandbox.programs.containers import Outcome, a_container, context, run, with_dataset


def _sh(script: str) -> Outcome:
    container = a_container(volume=with_dataset(3), DATA_PATH="/fsx")
    return run(exec_program(context(container), ["sh", "-c", script]))


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("ls /fsx/processed/train | wc -l", "3\n"),
        ("ls -1 /fsx/processed", "test\ntrain\nval\n"),
        ('find /fsx/processed -name "*.csv" 2>/dev/null | wc -l', "9\n"),
        ("ls $DATA_PATH/processed/train/*.csv | head -n 1", "/fsx/processed/train/x000.csv\n"),
        ("echo \"$DATA_PATH\" '$DATA_PATH'", "/fsx $DATA_PATH\n"),
        ("cd /fsx/processed && pwd; hostname", "/fsx/processed\nesm1nv-pretraining-worker-0\n"),
        ("false || echo saved", "saved\n"),
        ("true && echo both", "both\n"),
        ("false && echo never; echo always", "always\n"),
        ("echo one > /tmp/f; echo two >> /tmp/f; cat /tmp/f", "one\ntwo\n"),
        ("test -f /fsx/processed/val/x002.csv && echo there", "there\n"),
        ("X=5; echo ${X}", "5\n"),
        ("cat /tmp/l | grep -E '^GPU|: [1-9]'", "GPU 0\n Link: 12\n"),
        ("echo a; echo b | grep b; grep -v Link /tmp/l", "a\nb\nGPU 0\n"),
        ("grep -H . /tmp/n; grep 7 /tmp/n /tmp/l", "/tmp/n:7\n/tmp/n:7\n"),
    ],
)
def test_the_shell_answers(script: str, answer: str) -> None:
    files = "echo GPU 0 > /tmp/l; echo ' Link: 0' >> /tmp/l; echo ' Link: 12' >> /tmp/l; echo 7 > /tmp/n\n"
    outcome = _sh(files + script)
    assert (outcome.out, outcome.exit_code) == (answer, 0)


@pytest.mark.parametrize(
    ("script", "code", "complaint"),
    [
        ("nothing-here", 127, "not found"),
        ("ls /nowhere", 2, "No such file or directory"),
        ("cat /nowhere", 1, "No such file or directory"),
        ("exit 7", 7, ""),
        ("for x in 1 2; do echo $x; done", 2, "more than this shell can do"),
        ("echo 'open", 2, "unterminated"),
        ("echo a | grep b", 1, ""),
        ("echo a | grep -o a", 2, "grep: -o is more than this shell can do"),
        ("echo a | grep -E '(a'", 2, "grep: (a: missing )"),
        ("grep a /nowhere", 2, "grep: /nowhere: No such file or directory"),
    ],
)
def test_the_shell_fails_honestly(script: str, code: int, complaint: str) -> None:
    outcome = _sh(script)
    assert outcome.exit_code == code
    assert complaint in outcome.err


def test_a_sleep_takes_its_time() -> None:
    assert _sh("sleep 90; echo late").seconds == 90


def test_an_unknown_image_prints_a_line_and_succeeds() -> None:
    outcome = run(program_of(context(a_container(argv=()))))
    assert outcome.exit_code == 0
    assert outcome.out.count("\n") == 1


def test_an_unknown_image_that_is_to_stay_stays() -> None:
    outcome = run(program_of(context(a_container(argv=(), stays=True))))
    assert outcome.exit_code == -1
    assert "is up" in outcome.out


def test_the_file_that_output_goes_to_may_be_named_by_a_variable() -> None:
    container = a_container(NAME="kept")
    assert run(exec_program(context(container), ["sh", "-c", "echo a > /fsx/$NAME; cat /fsx/kept"])).out == "a\n"
