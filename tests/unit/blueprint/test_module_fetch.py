"""A launch fetches archives of the modules that its roots call; without one, git has to be there."""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from actions.base.errors import ConfigError, ConflictError, MissingError
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.model import Blueprint
from actions.blueprint.operators import cache_folder, mirror_folder
from actions.blueprint.parameters import bind
from actions.blueprint.terraform_modules import (
    archives_path,
    copy_archives,
    fetch_missing_modules,
    missing_modules,
    module_archive,
    needed_modules,
    take_module,
)
from actions.run.launch import require_preconditions
from actions.terraform import modules
from actions.terraform.modules import ModuleRelease, dirhash
from tests.unit.cluster.servers import serving

FILES = {"main.tf": b"# a module\n"}
ROOT = """\
module "net" {
  source  = "made/net/up"
  version = "1.0.0"
}
"""
BLUEPRINT = """\
schema: eksml/v1
id: nets
title: A test
summary: None.
cluster: {name: nets, region: us-west-2}
stages:
  - {id: network, kind: terraform, root: network, title: Network, expect: 1s..2s}
"""


def an_archive() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, data in FILES.items():
            member = tarfile.TarInfo(f"net-1.0.0/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


async def answer(request: web.Request) -> web.StreamResponse:
    return web.Response(body=an_archive()) if request.path == "/net.tar.gz" else web.Response(status=404)


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[str]:
    """The address of the archive; no program is on PATH but `terraform`."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "terraform").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "terraform").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    async with serving(answer) as address:
        yield address


def a_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, *, h1: str = "") -> Blueprint:
    release = ModuleRelease("made/net/up", "1.0.0", "0" * 40, url, h1 or dirhash(FILES))
    monkeypatch.setattr(modules, "module_releases", lambda: {release.key: release})
    folder = tmp_path / "nets"
    (folder / "network").mkdir(parents=True, exist_ok=True)
    (folder / "blueprint.yaml").write_text(BLUEPRINT)
    (folder / "network" / "main.tf").write_text(ROOT)
    return load_blueprint(folder)


async def test_with_the_archive_no_git_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: str) -> None:
    blueprint = a_system(tmp_path, monkeypatch, f"{site}/net.tar.gz")
    binding = bind(blueprint, {})
    require_preconditions(blueprint, binding, before_fetching=True)
    with pytest.raises(ConfigError, match="needs the git program for network"):
        require_preconditions(blueprint, binding)
    assert await fetch_missing_modules(missing_modules(blueprint, binding)) == []
    assert missing_modules(blueprint, binding) == ()
    require_preconditions(blueprint, binding)
    copy_archives(needed_modules(blueprint, binding), tmp_path / "run")
    assert [path.name for path in archives_path(tmp_path / "run").iterdir()] == ["made-net-up-1.0.0.tar.gz"]


async def test_without_archive_and_git_the_launch_ends_and_with_git_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: str
) -> None:
    blueprint = a_system(tmp_path, monkeypatch, f"{site}/nothing.tar.gz")
    missing = missing_modules(blueprint, bind(blueprint, {}))
    with pytest.raises(MissingError, match="HTTP 404"):
        await fetch_missing_modules(missing)
    (tmp_path / "bin" / "git").symlink_to(tmp_path / "bin" / "terraform")
    (sentence,) = await fetch_missing_modules(missing)
    assert sentence.startswith("Terraform fetches made/net/up/1.0.0 itself, with git: ")


async def test_another_archive_is_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: str) -> None:
    blueprint = a_system(tmp_path, monkeypatch, f"{site}/net.tar.gz", h1=dirhash({"main.tf": b"# another\n"}))
    with pytest.raises(ConflictError, match="digest h1:"):
        await fetch_missing_modules(missing_modules(blueprint, bind(blueprint, {})))
    assert not cache_folder().exists()


async def test_the_mirror_goes_before_what_was_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: str
) -> None:
    blueprint = a_system(tmp_path, monkeypatch, f"{site}/net.tar.gz")
    (release,) = needed_modules(blueprint, bind(blueprint, {}))
    for folder in (cache_folder(), mirror_folder()):
        take_module(folder, release, an_archive())
    assert module_archive(release) == archives_path(mirror_folder()) / release.file_name
