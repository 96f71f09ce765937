"""D17: a script writes below the folder of its artifacts, and where its operator lets it, and replaces nothing else."""

from __future__ import annotations

import stat

import pytest

from tests.support.program import Program
from tests.support.scripting import play


@pytest.mark.parametrize(
    "name", ["../outside.svg", "a/../../outside.svg", "ABSOLUTE", "link/outside.svg", "victim.svg"]
)
def test_d17_a_file_elsewhere_is_refused_before_anything_is_played(program: Program, name: str) -> None:
    artifacts, elsewhere = program.home / "artifacts", program.home / "elsewhere"
    artifacts.mkdir()
    elsewhere.mkdir()
    (elsewhere / "outside.svg").write_text("precious")
    (artifacts / "link").symlink_to(elsewhere)
    (artifacts / "victim.svg").symlink_to(elsewhere / "outside.svg")
    name = name.replace("ABSOLUTE", str(elsewhere / "outside.svg"))
    done = play(program, f'  - open: nodes\n  - screenshot: "{name}"\n')
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"{program.home}/script.yaml:5:" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert (elsewhere / "outside.svg").read_text() == "precious"
    assert not (program.home / "outside.svg").exists()


def test_d17_a_file_that_no_script_has_made_is_not_replaced(program: Program) -> None:
    artifacts = program.home / "artifacts"
    artifacts.mkdir()
    (artifacts / "notes.txt").write_text("precious")
    done = play(program, "  - open: nodes\n  - screenshot: notes.txt\n")
    assert done.returncode == 2
    assert "no script has made it" in done.stderr
    assert (artifacts / "notes.txt").read_text() == "precious"


def test_d17_what_a_script_has_made_is_replaced_by_the_next(program: Program) -> None:
    steps = "  - open: nodes\n  - screenshot: a/nodes.txt\n  - screenshot: a/nodes.svg\n  - screenshot: a/nodes.txt\n"
    for _ in range(2):
        done = play(program, steps)
        assert done.returncode == 0, done.stdout + done.stderr
    made = program.home / "artifacts" / "a" / "nodes.txt"
    assert "nodes" in made.read_text()
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    made.write_text("changed by hand")
    assert play(program, steps).returncode == 2
    assert made.read_text() == "changed by hand"


def test_d17_keys_lead_no_further_than_steps(program: Program) -> None:
    keys = " ".join("screenshot../typed.svg").replace("t .", "t space .", 1)
    done = play(program, f"  - press: colon {keys} enter\n  - wait: {{text: 'A script may not write', within: 60s}}\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (program.home / "typed.svg").exists()


def test_d17_a_link_that_comes_later_is_not_followed(program: Program) -> None:
    """Not seen by the check beforehand: the folder is made by the first step."""
    artifacts, elsewhere = program.home / "artifacts", program.home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "failed-line-4.txt").write_text("precious")
    artifacts.mkdir()
    (artifacts / "failed-line-4.txt").symlink_to(elsewhere / "failed-line-4.txt")
    done = play(program, "  - expect: {text: never to be seen}\n")
    assert done.returncode == 1
    assert "A script may not replace" in done.stdout
    assert (elsewhere / "failed-line-4.txt").read_text() == "precious"


def test_d17_leave_to_write_elsewhere_is_given_by_folder(program: Program) -> None:
    first, second = program.home / "first", program.home / "second"
    steps = f"  - open: nodes\n  - screenshot: {first}/a.svg\n  - screenshot: ../second/b.txt\n"
    done = play(program, steps, "--allow-write", str(first), "--allow-write", str(second))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (first / "a.svg").exists()
    assert (second / "b.txt").exists()
    assert play(program, steps, "--allow-write", str(first)).returncode == 2


def test_d17_the_flag_is_told_and_needs_a_script(program: Program) -> None:
    assert "--allow-write DIR" in program.command("--help").stdout
    done = program.command("--allow-write", str(program.home))
    assert done.returncode == 2
    assert "needs --script" in done.stderr
