"""Space of runs on disk: archived, restored, forgotten, cleaned."""

from __future__ import annotations

from tests.support.program import Program
from tests.support.released import unpack


def test_the_commands(program: Program) -> None:
    runs = program.state / "runs"
    runs.mkdir(parents=True, mode=0o700)
    folder = unpack("0.1.0/succeeded", runs)
    logs = program.command("runs", "logs", folder.name).stdout
    done = program.command("--readonly", "runs", "archive", folder.name, "run.tar")
    assert done.returncode == 0, done.stderr
    again = program.command("runs", "archive", folder.name, "run.tar")
    assert (again.returncode, again.stdout) == (1, "")
    folder.rename(runs.parent / "moved")
    done = program.command("runs", "restore", "run.tar")
    assert "--restored" in done.stdout, done.stderr
    assert "copy from an archive" in program.command("runs", "rm", folder.name).stdout
    assert program.command("runs", "logs", folder.name).stdout == logs
    refused = program.command("runs", "resume", folder.name)
    assert refused.returncode == 1
    assert "restored from an archive" in refused.stderr
    gone = program.command("runs", "rm", folder.name, "--confirm", folder.name, "--archive", "last.zip")
    assert "Archived" in gone.stdout, gone.stderr
    assert not folder.exists()
    over = unpack("0.1.0/torn-down", runs)
    assert program.command("runs", "rm", over.name, "--confirm", over.name, "--archive", "over.zip").returncode == 0
    back = program.command("runs", "restore", "over.zip")
    assert "torn down: to look at only." in back.stdout, back.stderr
    assert "--restored" not in back.stdout  # there is nothing left to carry out
    over = runs / over.name
    looked = program.command("runs", "clean", "--dry-run")
    assert f"{over.name} is torn down, " in looked.stdout
    assert over.exists()
