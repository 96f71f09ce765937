"""One cache of providers for all runs, and what the operator has configured instead."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConflictError
from actions.terraform.providers import discard_installed, installing, locked_packages, this_platform
from actions.terraform.working_directory import LOCK_FILE
from tests.unit.terraform.support import a_driver, needs_terraform

ROOT = """
terraform {
  required_providers {
    toy = {
      source  = "example.com/tests/toy"
      version = "1.0.0"
    }
  }
}
"""
LOCK = """
provider "registry.terraform.io/hashicorp/aws" {{
  version     = "5.100.0"
  constraints = "5.100.0"
  hashes = [
    "h1:Ijt7pOlB7Tr7maGQIqtsLFbl7pSMIj06TVdkoSBcYOw=",
    "zh:{sha256}",
  ]
}}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("TF_PLUGIN_CACHE_DIR", "TF_CLI_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def a_root(folder: Path, text: str = ROOT) -> Path:
    folder.mkdir()
    (folder / "main.tf").write_text(text)
    return folder


@needs_terraform
async def test_two_roots_share_a_provider(home: Path) -> None:
    place = home / ".terraform.d" / "plugins" / "example.com" / "tests" / "toy" / "1.0.0" / this_platform()
    place.mkdir(parents=True)
    program = place / "terraform-provider-toy_v1.0.0"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    for name in ("one", "other"):
        await a_driver(a_root(home / name), home / f"work-{name}").init()
    cached = home / "cache" / "eksml-tui" / "terraform-plugins" / "example.com" / "tests" / "toy" / "1.0.0"
    assert cached.is_dir()
    for name in ("one", "other"):
        installed = home / f"work-{name}" / ".terraform" / "providers" / "example.com" / "tests" / "toy" / "1.0.0"
        assert (installed / this_platform()).is_symlink()
        discard_installed(home / f"work-{name}")
        assert not installed.exists()
    assert program.exists()


async def test_inits_take_the_cache_one_after_the_other(home: Path) -> None:
    work = a_root(home / "work")
    order: list[str] = []
    is_held, goes_on = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with installing(work, {}, SystemClock()) as variables:
            assert variables == {"TF_PLUGIN_CACHE_DIR": str(home / "cache" / "eksml-tui" / "terraform-plugins")}
            is_held.set()
            await goes_on.wait()
            order.append("first")

    async def second() -> None:
        await is_held.wait()
        goes_on.set()
        async with installing(work, {}, SystemClock()):
            order.append("second")

    await asyncio.gather(first(), second())
    assert order == ["first", "second"]


@pytest.mark.parametrize(
    "text",
    ['plugin_cache_dir = "/somewhere"', 'provider_installation {\n  filesystem_mirror { path = "/somewhere" }\n}'],
)
async def test_what_the_operator_has_configured_counts(home: Path, text: str) -> None:
    (home / ".terraformrc").write_text(text)
    async with installing(a_root(home / "work"), {}, SystemClock()) as variables:
        assert variables == {}
    (home / ".terraformrc").unlink()
    async with installing(home / "work", {"TF_PLUGIN_CACHE_DIR": "/somewhere"}, SystemClock()) as variables:
        assert variables == {}


async def test_a_root_of_built_in_resources_needs_no_cache(home: Path) -> None:
    work = a_root(home / "work", 'resource "terraform_data" "one" {}\n')
    async with installing(work, {}, SystemClock()) as variables:
        assert variables == {}
    assert not (home / "cache").exists()


async def test_a_mirror_is_configured_for_what_it_has_and_for_no_longer_than_the_init(home: Path) -> None:
    work = a_root(home / "work")
    (work / LOCK_FILE).write_text(LOCK.format(sha256="0" * 64))
    (package,) = locked_packages(work / LOCK_FILE)
    mirror = home / "mirror"
    mirror.mkdir()
    async with installing(work, {}, SystemClock(), mirror=mirror) as variables:
        assert "TF_CLI_CONFIG_FILE" not in variables  # it is empty
    archive = package.path_in(mirror, this_platform())
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"")
    (home / ".terraformrc").write_text('credentials "example.com" {\n  token = "t"\n}\n')
    async with installing(work, {}, SystemClock(), mirror=mirror) as variables:
        settings = Path(variables["TF_CLI_CONFIG_FILE"])
        text = settings.read_text()
        assert settings.stat().st_mode & 0o077 == 0
        assert (work / ".mirror" / "registry.terraform.io" / "hashicorp" / "aws" / archive.name).resolve() == archive
    assert text.startswith("credentials")
    assert f'path    = "{work}/.mirror"' in text
    assert text.count('["registry.terraform.io/hashicorp/aws"]') == 2
    assert not settings.exists()
    assert not (work / ".mirror").exists()
    tofu = "registry.opentofu.org"
    async with installing(work, {}, SystemClock(), mirror=mirror, registry=tofu) as variables:
        assert f'["{tofu}/hashicorp/aws"]' in Path(variables["TF_CLI_CONFIG_FILE"]).read_text()
        assert (work / ".mirror" / tofu / "hashicorp" / "aws" / archive.name).resolve() == archive


def test_an_archive_that_is_not_recorded_is_refused(home: Path) -> None:
    lock = home / LOCK_FILE
    lock.write_text(LOCK.format(sha256=hashlib.sha256(b"right").hexdigest()))
    (package,) = locked_packages(lock)
    assert package.url("linux_amd64") == (
        "https://releases.hashicorp.com/terraform-provider-aws/5.100.0/terraform-provider-aws_5.100.0_linux_amd64.zip"
    )
    package.require(b"right", "linux_amd64")
    with pytest.raises(ConflictError, match=r"terraform-provider-aws_5\.100\.0_linux_amd64\.zip has the sha256"):
        package.require(b"wrong", "linux_amd64")
