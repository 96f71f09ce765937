"""The files of a run's copy of a blueprint."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from actions.base.errors import BlueprintError
from actions.blueprint import copied_files as module
from actions.blueprint.copied_files import copied_files


def write(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("12345")
    return folder


def test_what_is_shared_is_placed_beside_the_own_files_and_never_over_them(tmp_path: Path) -> None:
    own = write(tmp_path / "own", "blueprint.yaml", "common/root/own.tf", "x/__pycache__/x.pyc")
    library = write(tmp_path / "library", "root/main.tf", "root/in/deep.tf", "part-v2.yaml", "own.yaml")
    write(own, "common/own.yaml")
    shared = {
        "common/part.yaml": library / "part-v2.yaml",
        "common/own.yaml": library / "own.yaml",
        "common/more": library / "root",
    }
    assert {str(place): path for place, path in copied_files(own, shared).items()} == {
        "blueprint.yaml": own / "blueprint.yaml",
        "common/own.yaml": own / "common" / "own.yaml",
        "common/root/own.tf": own / "common" / "root" / "own.tf",
        "common/part.yaml": library / "part-v2.yaml",
        "common/more/main.tf": library / "root" / "main.tf",
        "common/more/in/deep.tf": library / "root" / "in" / "deep.tf",
    }


def test_links_to_files_inside_are_files_and_those_of_providers_or_to_nowhere_are_left_out(tmp_path: Path) -> None:
    own = write(tmp_path / "own", "a.yaml", ".terraform/modules/m.tf")
    (own / "b.yaml").symlink_to("a.yaml")
    (own / "gone").symlink_to("nothing")
    (own / "loop").symlink_to("loop")
    (own / ".terraform" / "provider").symlink_to(tmp_path)
    os.mkfifo(own / "pipe")
    assert sorted(map(str, copied_files(own))) == [".terraform/modules/m.tf", "a.yaml", "b.yaml"]


def test_the_limit_counts_what_is_shared_and_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, library = write(tmp_path / "own", "a", "common/b"), write(tmp_path / "library", "c")
    monkeypatch.setattr(module, "_MOST_BYTES", 15)
    assert len(copied_files(own, {"common/b": own / "common" / "b", "common/c": library / "c"})) == 3
    with pytest.raises(BlueprintError, match=r"own: its files have more than"):
        copied_files(own, {"common/c": library / "c", "common/d": library / "c"})


def test_a_folder_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BlueprintError, match=r"gone: cannot be read: No such file"):
        copied_files(tmp_path / "gone")
