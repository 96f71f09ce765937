"""Space of runs on disk: archived, forgotten, taken back, cleaned."""

from __future__ import annotations

from tests.support.program import Program
from tests.unit.run.finished import finished_run


def test_the_commands(program: Program) -> None:
    runs = program.state / "runs"
    runs.mkdir(parents=True, mode=0o700)
    folder = finished_run(runs, "fake-1121-0001")
    done = program.command("--readonly", "runs", "archive", folder.name, "run.tar")
    assert done.returncode == 0, done.stderr
    again = program.command("runs", "archive", folder.name, "run.tar")
    assert (again.returncode, again.stdout) == (1, "")
    folder.rename(runs.parent / "moved")
    unsure = program.command("runs", "takeover", folder.name, "--from", "run.tar")
    assert (unsure.returncode, folder.exists()) == (2, False)
    assert f"Add --confirm {folder.name}" in unsure.stderr
    over = finished_run(runs, "fake-1121-0002", is_torn_down=True)
    gone = program.command("runs", "rm", over.name, "--confirm", over.name, "--archive", "over.tar")
    assert "Archived" in gone.stdout, gone.stderr
    assert not (runs / over.name).exists()
    back = program.command("runs", "takeover", over.name, "--from", "over.tar")  # no machine acts on it any more
    assert back.returncode == 0, back.stderr
    assert program.command("runs", "show", over.name).returncode == 0
    over = runs / over.name
    looked = program.command("runs", "clean", "--dry-run")
    assert f"{over.name} is torn down, " in looked.stdout
    assert over.exists()
