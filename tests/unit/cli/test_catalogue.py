"""`validate`: mistakes end it with 2; of several folders, those without a blueprint are passed over."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from actions.base.files import shipped_blueprints
from tui.cli.catalogue import BAD_FILE, run

GOOD = shipped_blueprints() / "efa-nccl-tests"
SHARED = shipped_blueprints() / "common"


def validated(*folders: Path) -> int:
    return run(Namespace(command="validate", folder=list(folders)))


def test_a_folder_that_blueprints_share_is_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert validated(SHARED, GOOD) == 0
    assert capsys.readouterr().out == f"{GOOD}: good.\n{SHARED}: not a blueprint, it has no blueprint.yaml.\n"


def test_alone_it_is_a_mistake_as_is_a_folder_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert validated(SHARED) == BAD_FILE
    assert validated(GOOD, SHARED / "missing") == BAD_FILE
    assert capsys.readouterr().out == ""
