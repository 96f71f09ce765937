"""S5: what is written privately follows no link that somebody has planted, and no folder of somebody else's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, JournalError
from actions.base.files import private_directory, write_private
from actions.run.journal.store import create_journal
from actions.run.output.writer import OutputWriter
from tests.support.missing import needs_root
from tests.support.streams import tail_of
from tests.unit.run.world import creation


def a_victim(tmp_path: Path) -> Path:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    return victim


def test_s05_a_planted_scratch_file_is_not_written_through(tmp_path: Path) -> None:
    victim = a_victim(tmp_path)
    (tmp_path / f".state.{os.getpid()}.tmp").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        write_private(tmp_path / "state", b"ours")
    assert victim.read_text() == "mine"


def test_s05_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim = a_victim(tmp_path)
    (tmp_path / "state").symlink_to(victim)
    write_private(tmp_path / "state", b"ours")
    assert (victim.read_text(), (tmp_path / "state").is_symlink()) == ("mine", False)


def test_s05_a_journal_is_not_made_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    (tmp_path / "journal.jsonl").symlink_to(target)
    with pytest.raises(JournalError):
        create_journal(tmp_path / "journal.jsonl", creation(), SystemClock())
    assert not target.exists()


def test_s05_a_log_is_not_kept_through_a_link(tmp_path: Path) -> None:
    victim = a_victim(tmp_path)
    planted = tail_of(tmp_path, "work", "lines")
    planted.parent.mkdir(parents=True)
    planted.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        OutputWriter(tmp_path, "work").open()
    assert victim.read_text() == "mine"


@needs_root()
def test_s05_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    with pytest.raises(ConfigError, match="belongs to another user"):
        private_directory(folder)


def test_s05_whatever_the_umask_what_is_made_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = private_directory(tmp_path / "a" / "b")
        write_private(folder / "f", b"x")
        writer = OutputWriter(folder, "work")
        writer.open()
        writer.close()
        create_journal(folder / "journal.jsonl", creation(), SystemClock())
    finally:
        os.umask(before)
    open_to_others = [path for path in folder.rglob("*") if path.stat().st_mode & 0o077]
    assert open_to_others == []
