"""S16, F18: which providers an init takes, with the real program and a mirror of this machine."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from actions.base.errors import RefusedError
from actions.terraform.driver import TerraformDriver
from actions.terraform.working_directory import LOCK_FILE, locked_providers
from tests.unit.terraform.support import a_driver, needs_terraform

pytestmark = needs_terraform

SOURCE = """
terraform {
  required_providers {
    toy = {
      source  = "example.com/tests/toy"
      version = "1.0.0"
    }
  }
}
"""
OTHER = """
provider "example.com/tests/toy" {
  version     = "1.0.0"
  constraints = "1.0.0"
  hashes      = ["h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]
}
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root that needs a provider, which a mirror has."""
    platform = "darwin_arm64" if sys.platform == "darwin" else "linux_amd64"
    provider = tmp_path / "mirror" / "example.com" / "tests" / "toy" / "1.0.0" / platform
    provider.mkdir(parents=True)
    program = provider / "terraform-provider-toy_v1.0.0"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    config = tmp_path / "terraform.rc"
    config.write_text(f'provider_installation {{\n  filesystem_mirror {{ path = "{tmp_path / "mirror"}" }}\n}}\n')
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(config))
    root = tmp_path / "root"
    root.mkdir()
    (root / "main.tf").write_text(SOURCE)
    return root


def tamper(tmp_path: Path) -> None:
    (program,) = (tmp_path / "mirror").rglob("terraform-provider-toy*")
    program.write_text("#!/bin/sh\nexit 2\n")


async def test_the_first_init_of_a_root_without_a_lock_records_one_and_says_so(tmp_path: Path, root: Path) -> None:
    driver = a_driver(root, tmp_path / "work")
    assert await driver.init() == "The root pins no providers. Recorded for this run: tests/toy 1.0.0."
    assert locked_providers(tmp_path / "work" / LOCK_FILE) == {"tests/toy": "1.0.0"}
    assert await driver.init() == ""
    assert not (root / LOCK_FILE).exists()


async def test_a_later_init_takes_no_other_provider(tmp_path: Path, root: Path) -> None:
    await a_driver(root, tmp_path / "work").init()
    tamper(tmp_path)
    with pytest.raises(RefusedError, match="not those that the root's lock file records"):
        await fresh(tmp_path, root).init()


async def test_a_provider_that_is_not_the_shipped_one_is_refused(tmp_path: Path, root: Path) -> None:
    (root / LOCK_FILE).write_text(OTHER)
    with pytest.raises(RefusedError, match="not those that the root's lock file records"):
        await a_driver(root, tmp_path / "work").init()


async def test_a_provider_that_the_lock_does_not_list_is_refused(tmp_path: Path, root: Path) -> None:
    (root / LOCK_FILE).write_text("# nothing is locked\n")
    with pytest.raises(RefusedError, match="not those that the root's lock file records"):
        await a_driver(root, tmp_path / "work").init()


def fresh(tmp_path: Path, root: Path) -> TerraformDriver:
    """A driver of the same folder, whose provider has to be installed anew."""
    shutil.rmtree(tmp_path / "work" / ".terraform")
    return a_driver(root, tmp_path / "work")
