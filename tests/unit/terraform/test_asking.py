"""A state is asked of Terraform, wherever it is, and without the root's modules and providers."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import RefusedError, ToolError
from actions.terraform.asking import ask_state
from actions.terraform.backend import OVERRIDE_FILE, StateBackend
from actions.terraform.driver import TerraformDriver
from actions.terraform.failure import UninitialisedError
from actions.terraform.program import fetch_version, parse_version, version_now
from actions.terraform.state import EMPTY_STATE, read_state
from tests.faults.roots import a_state
from tests.unit.terraform.support import PROGRAM, a_driver, needs_terraform

pytestmark = needs_terraform

NEEDY = """
terraform {
  required_providers {
    toy = { source = "example.com/tests/toy" }
  }
}
module "m" {
  source = "./m"
}
"""


def program() -> Path:
    assert PROGRAM is not None
    return PROGRAM


def test_what_was_never_applied_has_no_state(tmp_path: Path) -> None:
    assert ask_state(program(), tmp_path / "absent", {}) == EMPTY_STATE


def test_a_state_is_read_without_modules_and_providers(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text(NEEDY)
    (tmp_path / "terraform.tfstate").write_text(a_state("x"))
    before = sorted(tmp_path.rglob("*"))
    state = ask_state(program(), tmp_path, {})
    assert (state.exists, state.everything) == (True, ("terraform_data.x",))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_torn_state_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "terraform.tfstate").write_text(a_state("x")[:40])
    with pytest.raises(ToolError):
        ask_state(program(), tmp_path, {})


def test_an_own_backend_is_asked_in_the_working_directory_alone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "main.tf").write_text('terraform {\n  backend "local" { path = "../o.tfstate" }\n}\n')
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "terraform.tfstate").write_text(a_state("not-this"))
    with pytest.raises(UninitialisedError):
        ask_state(program(), tmp_path / "work", {}, root=root)


def test_deposed_objects_are_in_a_state_too() -> None:
    text = a_state("x").replace('"schema_version": 0', '"schema_version": 0, "deposed": "0123abcd"')
    state = read_state(text.encode())
    assert (state.addresses, state.deposed, state.everything) == ((), ("terraform_data.x",), ("terraform_data.x",))


async def test_an_older_terraform_does_not_get_a_state_in_a_home(tmp_path: Path) -> None:
    old = tmp_path / "terraform"
    old.write_text('#!/bin/sh\necho \'{"terraform_version": "1.9.8"}\'\n')
    old.chmod(0o755)
    root = tmp_path / "root"
    root.mkdir()
    (root / "main.tf").write_text("")
    home = StateBackend("team", "k", "eu-west-1")
    with pytest.raises(RefusedError, match=r"Terraform 1\.9 cannot lock a state in s3://team/k"):
        await TerraformDriver(root, tmp_path / "work", {}, program=old, store=home).init()
    assert not (tmp_path / "work").exists()


async def test_versions() -> None:
    found = await fetch_version(program())
    assert found == version_now(program())
    assert parse_version(found) >= (1, 5)
    assert parse_version("1.12.0-beta1") == (1, 12)


async def test_the_override_is_removed_when_the_root_gets_a_backend_of_its_own(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "main.tf").write_text('resource "terraform_data" "x" {}\n')
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / OVERRIDE_FILE).write_text("{}")
    await a_driver(root, tmp_path / "work").init()
    assert not (tmp_path / "work" / OVERRIDE_FILE).exists()
