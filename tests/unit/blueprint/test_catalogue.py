"""The catalogue: where blueprints are found, and which wins."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from actions.base.errors import BlueprintError, MissingError
from actions.blueprint.catalogue import Catalogue, load_blueprint
from actions.blueprint.model import Blueprint
from tests.unit.blueprint.builders import a_blueprint


def test_shipped_and_own_blueprints_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    a_blueprint(tmp_path / "config" / "eksml-tui" / "blueprints" / "mine")
    a_blueprint(tmp_path / "more" / "other", ("id: small", "id: other"))

    ids = [blueprint.id for blueprint in Catalogue.usual([tmp_path / "more"]).list()]
    assert {"bionemo-esm1nv", "small", "other"} <= set(ids)
    assert ids == sorted(ids)


def test_a_later_folder_wins(tmp_path: Path) -> None:
    a_blueprint(tmp_path / "one" / "x")
    a_blueprint(tmp_path / "two" / "x", ("title: Small", "title: Smaller"))

    assert Catalogue([tmp_path / "one", tmp_path / "two"]).find("small").title == "Smaller"


def test_an_unknown_id_names_the_known_ones(tmp_path: Path) -> None:
    a_blueprint(tmp_path / "x")
    with pytest.raises(MissingError, match="no blueprint 'smal'") as caught:
        Catalogue([tmp_path]).find("smal")
    assert "small" in caught.value.hint


def test_a_broken_blueprint_hides_no_other(tmp_path: Path) -> None:
    a_blueprint(tmp_path / "good")
    a_blueprint(tmp_path / "bad", ("title: Small", "titel: Small"))
    catalogue = Catalogue([tmp_path])

    assert [blueprint.id for blueprint in catalogue.list()] == ["small"]
    assert [item.folder.name for item in catalogue.broken()] == ["bad"]
    with pytest.raises(BlueprintError, match="titel"):
        catalogue.find("bad")


def test_a_blueprint_is_found_without_loading_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_blueprint(tmp_path / "a", ("id: small", 'id: "first"  # quoted'))
    a_blueprint(tmp_path / "b")
    loaded: list[str] = []

    def load(folder: Path) -> Blueprint:
        loaded.append(folder.name)
        return load_blueprint(folder)

    monkeypatch.setattr("actions.blueprint.catalogue.load_blueprint", load)

    assert Catalogue([tmp_path]).find("first").id == "first"
    assert loaded == ["a"]


def test_one_that_is_broken_says_what_is_wrong_whatever_its_folder_is_called(tmp_path: Path) -> None:
    a_blueprint(tmp_path / "bad", ("title: Small", "titel: Small"))

    with pytest.raises(BlueprintError, match="titel"):
        Catalogue([tmp_path]).find("small")


def test_an_earlier_folder_does_not_stand_in_for_a_broken_blueprint(tmp_path: Path) -> None:
    a_blueprint(tmp_path / "one" / "x")
    a_blueprint(tmp_path / "two" / "x", ("title: Small", "titel: Small"))
    catalogue = Catalogue([tmp_path / "one", tmp_path / "two"])
    with pytest.raises(BlueprintError, match=r"two/x.*titel"):
        catalogue.find("small")
    a_blueprint(tmp_path / "two" / "a")
    assert catalogue.find("small").folder == tmp_path / "two" / "a"


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BlueprintError, match="not a folder of blueprints"):
        Catalogue.usual([tmp_path / "none"])


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to("/dev/zero"),
        a_pipe,
        lambda path: path.symlink_to("/dev/tty"),
        lambda path: path.symlink_to(path.with_name("gone")),
        lambda path: path.mkdir(),
        lambda path: os.truncate(path, 3 << 30) if path.touch() is None else None,
    ],
    ids=["an endless device", "a pipe", "a terminal", "a dangling link", "a folder", "3 GB"],
)
def test_a_file_that_is_none_costs_no_other_blueprint_time_or_memory(
    make: Callable[[Path], object], tmp_path: Path
) -> None:
    a_blueprint(tmp_path / "good")
    (tmp_path / "trap").mkdir()
    make(tmp_path / "trap" / "blueprint.yaml")
    catalogue = Catalogue([tmp_path])
    assert catalogue.find("small").title == "Small"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2 << 20, "kilobytes"
    with pytest.raises((BlueprintError, MissingError), match=r"cannot be read|no blueprint"):
        catalogue.find("trap")


def test_a_root_may_hold_anything_that_a_folder_can(tmp_path: Path) -> None:
    blueprint = a_blueprint(tmp_path / "b")
    (blueprint / "root" / "zero.tf").symlink_to("/dev/zero")
    with pytest.raises(BlueprintError, match=r"zero\.tf cannot be read: it is not a file"):
        load_blueprint(blueprint)
