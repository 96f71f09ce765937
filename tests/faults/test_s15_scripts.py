"""S15: a script is data: it embeds no shell, says its version, and what it destroys it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.program import Program

HEAD = "eksml-script: 1\n"
CORPUS = {
    "no version": "steps: [{open: nodes}]",
    "another version": "eksml-script: 2\nsteps: [{open: nodes}]",
    "a shell": f"{HEAD}steps: [{{sh: 'touch PWNED'}}]",
    "a command": f"{HEAD}steps: [{{run: [touch, PWNED]}}]",
    "a substitution": f"{HEAD}steps: [{{open: '$(touch PWNED)'}}]",
    "backticks": f"{HEAD}steps: [{{open: '`touch PWNED`'}}]",
    "a python tag": f"{HEAD}steps: [!!python/object/apply:os.system ['touch PWNED']]",
    "an include": f"{HEAD}include: other.yaml\nsteps: [{{open: nodes}}]",
    "a merge": f"{HEAD}base: &b {{open: nodes}}\nsteps: [{{<<: *b}}]",
    "a teardown without a name": f"{HEAD}steps: [{{teardown: {{delete_data: true}}}}]",
    "a teardown in always without a name": f"{HEAD}steps: [{{open: nodes}}]\nalways: [teardown]",
    "a variable that is not there": f"{HEAD}steps: [{{open: '${{env:NOT_THERE}}'}}]",
    "two verbs in one step": f"{HEAD}steps: [{{open: nodes, teardown: x}}]",
    "keys that are none": f"{HEAD}steps: [{{press: 'ctrl+alt+nothing'}}]",
    "no steps": HEAD,
}


@pytest.mark.parametrize("text", CORPUS.values(), ids=CORPUS.keys())
def test_s15_a_bad_script_is_refused_whole(program: Program, text: str) -> None:
    script = program.home / "script.yaml"
    script.write_text(text)
    done = program.command("--demo", "--script", str(script))
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith(f"eksml-tui: {script}")
    assert done.stderr.count("\n") == 1
    assert list(program.home.rglob("PWNED")) == []
    assert not (program.state / "sandbox").exists()  # nothing was begun, not even the embedded cluster


def test_s15_a_teardown_of_another_name_does_nothing(program: Program) -> None:
    script = program.home / "script.yaml"
    script.write_text(
        f"{HEAD}steps:\n  - launch: {{blueprint: bionemo-esm1nv, preset: rehearsal}}\n"
        "  - teardown: {confirm: another-cluster}\n"
    )
    done = program.command("--demo", "--script", str(script), "--artifacts", str(program.home))
    assert done.returncode != 0
    assert "another-cluster" in done.stdout
    assert "undone" not in done.stdout
    folders: list[Path] = program.run_folders()
    assert len(folders) == 1
    assert "tearing down" not in program.command("runs", "show", folders[0].name).stdout
