"""State is private, written in one step, and found where the operator said."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import ConfigError
from actions.base.files import (
    asset,
    filesystem_type,
    is_network_filesystem,
    private_directory,
    state_home,
    write_private,
)


def test_state_follows_xdg_and_ignores_relative_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_home() == tmp_path / "eksml-tui"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_home() == tmp_path / ".local/state/eksml-tui"


def test_directories_and_files_are_private(tmp_path: Path) -> None:
    folder = private_directory(tmp_path / "a" / "b")
    write_private(folder / "f", b"one")
    write_private(folder / "f", b"two")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "f").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == ["f"]
    assert (folder / "f").read_bytes() == b"two"


def test_a_folder_open_to_others_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    assert private_directory(folder).stat().st_mode & 0o777 == 0o700


def test_a_file_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError) as caught:
        private_directory(tmp_path / "file" / "sub")
    assert "Set XDG_STATE_HOME" in caught.value.sentence()


def test_what_is_not_shipped_is_said() -> None:
    with pytest.raises(ConfigError, match="not part of this installation"):
        asset("no/such/file")


def test_the_file_system_of_a_path_is_known() -> None:
    assert filesystem_type(Path("/proc/self")) == "proc"
    assert not is_network_filesystem(Path("/proc"))
