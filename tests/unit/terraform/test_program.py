"""The program that carries out roots: Terraform's or OpenTofu's."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, ToolError
from actions.terraform.asking import tool_failure
from actions.terraform.driver import TerraformDriver
from actions.terraform.program import (
    PROGRAM_VARIABLE,
    elsewhere,
    find_program,
    missing_sentence,
    product_of,
    program_variable,
    require_program,
)
from actions.terraform.providers import installing
from actions.terraform.working_directory import LOCK_FILE, WorkingDirectory

LOCK = 'provider "registry.{}/hashicorp/aws" {{\n  version = "5.99.1"\n  hashes = ["zh:{}"]\n}}\n'
TOFU = Path("/usr/bin/tofu")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv(PROGRAM_VARIABLE, raising=False)
    return folder


def put(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o700)
    return path


def test_tofu_is_taken_where_it_alone_is_there(programs: Path) -> None:
    assert find_program() is None
    assert program_variable() == {}
    tofu = put(programs, "tofu")
    assert find_program() == tofu
    assert program_variable() == {PROGRAM_VARIABLE: "tofu"}
    terraform = put(programs, "terraform")
    assert find_program() == terraform
    assert program_variable() == {PROGRAM_VARIABLE: "terraform"}


def test_the_setting_chooses_and_a_run_keeps_what_it_was_launched_with(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terraform, tofu = put(programs, "terraform"), put(programs, "tofu")
    monkeypatch.setenv(PROGRAM_VARIABLE, "tofu")
    assert find_program() == tofu
    assert find_program({PROGRAM_VARIABLE: "terraform"}) == terraform
    assert find_program({PROGRAM_VARIABLE: str(tofu)}) == tofu
    assert program_variable() == {PROGRAM_VARIABLE: "tofu"}
    terraform.unlink()
    with pytest.raises(ConfigError, match="The run was launched with terraform, which is not on PATH"):
        require_program({PROGRAM_VARIABLE: "terraform"})
    tofu.unlink()
    assert missing_sentence() == "tofu, which terraform_program names, is not on PATH."


def test_nothing_else_is_started_whoever_names_it(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(programs, "rm")
    assert find_program({PROGRAM_VARIABLE: "rm"}) is None
    monkeypatch.setenv(PROGRAM_VARIABLE, "rm")
    assert missing_sentence() == "rm, which terraform_program names, is neither terraform nor tofu."


@pytest.mark.parametrize(
    ("brought", "own", "kept"),
    [
        ("tofu", "terraform", "tofu"),
        ("/opt/tofu", "/usr/local/bin/tofu", "/usr/local/bin/tofu"),
        ("/tmp/evil/terraform", "tofu", "terraform"),
        ("terraform", "", "terraform"),
        ("tofu", "", "tofu"),
        ("", "tofu", "tofu"),
    ],
)
def test_a_run_that_comes_from_another_machine_keeps_whose_program_it_is(brought: str, own: str, kept: str) -> None:
    assert elsewhere(brought, own) == kept


def test_a_link_tells_whose_program_it_is(programs: Path) -> None:
    put(programs, "tofu")
    (programs / "terraform").symlink_to("tofu")
    assert product_of(programs / "terraform") == "OpenTofu"
    assert product_of(Path("/usr/bin/terraform")) == "Terraform"


def test_digests_of_terraforms_registry_pin_nothing_of_tofus(tmp_path: Path) -> None:
    root, work = tmp_path / "root", tmp_path / "work"
    root.mkdir()
    (root / "main.tf").touch()
    (root / LOCK_FILE).write_text(LOCK.format("terraform.io", "1" * 64))
    directory = WorkingDirectory(root, work, program=TOFU)
    directory.prepare()
    assert not directory.pins_providers
    assert "registry.terraform.io, and tofu takes those of registry.opentofu.org" in directory.unpinned()
    recorded = LOCK.format("opentofu.org", "2" * 64)
    (work / LOCK_FILE).write_text(recorded)
    directory.prepare()
    assert WorkingDirectory(root, work, program=TOFU).pins_providers
    assert (work / LOCK_FILE).read_text() == recorded

    terraform = WorkingDirectory(root, work)
    terraform.prepare()
    assert terraform.pins_providers
    assert (work / LOCK_FILE).read_text() == (root / LOCK_FILE).read_text()


async def test_tofus_own_configuration_names_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TF_PLUGIN_CACHE_DIR", "TF_CLI_CONFIG_FILE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "main.tf").write_text('provider "aws" {}\n')
    (tmp_path / ".tofurc").write_text('plugin_cache_dir = "/somewhere"\n')
    async with installing(work, {}, SystemClock(), registry="registry.opentofu.org") as variables:
        assert variables == {}
    async with installing(work, {}, SystemClock()) as variables:
        assert "TF_PLUGIN_CACHE_DIR" in variables


def test_sentences_name_the_program(tmp_path: Path) -> None:
    locked = "Error acquiring the state lock\nID: 1-2"
    error = ToolError(["tofu", "apply"], exit_code=1, tail=locked)
    assert "tofu force-unlock" in tool_failure([str(TOFU), "apply"], error).hint
    driver = TerraformDriver(tmp_path, tmp_path / "work", {}, program=TOFU)
    assert driver.program_name == "tofu"
