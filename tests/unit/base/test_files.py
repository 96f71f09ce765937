"""State is private, written in one step, and found where the operator said."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from actions.base.errors import ConfigError
from actions.base.files import (
    asset,
    expanded,
    filesystem_type,
    is_network_filesystem,
    open_file,
    private_directory,
    read_file,
    state_folder,
    write_private,
)


def test_state_follows_xdg_and_ignores_relative_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_folder() == tmp_path / "eksml-tui"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_folder() == tmp_path / ".local/state/eksml-tui"


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


def a_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def test_a_file_is_read_whole_or_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    assert read_file(tmp_path / "f", 5) == b"12345"
    assert read_file(tmp_path / "f", 2, is_cut=True) == b"12"
    with pytest.raises(OSError, match="more than 4 bytes") as caught:
        read_file(tmp_path / "f", 4)
    assert caught.value.errno == errno.EFBIG


def test_what_is_certainly_not_there_is_told_from_what_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    for path in (tmp_path / "gone", tmp_path / "file" / "below", tmp_path / "dangling"):
        with pytest.raises(FileNotFoundError):
            read_file(path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="symbolic links") as caught:
        read_file(tmp_path / "loop")
    assert not isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/null", "/dev/tty", "/"])
def test_neither_a_device_nor_a_folder_is_opened(target: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(OSError, match=r"it is not a file|Is a directory|No such device"):
        read_file(tmp_path / "link")


def test_a_pipe_is_opened_only_where_the_operator_named_it(tmp_path: Path) -> None:
    pipe = a_pipe(tmp_path)
    with pytest.raises(OSError, match="it is not a file"):
        read_file(pipe)
    assert read_file(pipe, may_be_pipe=True) == b"", "without a writer it is at its end"
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, b"piped")
    with open_file(pipe, may_be_pipe=True) as file:
        os.close(writer)
        assert file.read() == b"piped"


def test_a_file_that_is_swapped_while_it_is_opened_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, file = a_pipe(tmp_path), tmp_path / "file"
    file.write_bytes(b"")
    seen = os.stat(file)
    monkeypatch.setattr("actions.base.files.os.stat", lambda *_words, **_named: seen)
    with pytest.raises(OSError, match="it is not a file"):
        read_file(pipe)


def test_a_link_is_not_followed_where_that_is_asked(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(OSError, match="it is not a file"):
        open_file(tmp_path / "link", is_followed=False)


def test_a_user_who_is_not_known_has_no_folder() -> None:
    assert expanded("~nobody-of-that-name/x") == Path("~nobody-of-that-name/x")
