"""`eksml-tui mirror` with providers, and an init that has nothing but that mirror."""

from __future__ import annotations

import asyncio
import hashlib
import json
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from actions.terraform import providers
from actions.terraform.driver import TerraformDriver
from actions.terraform.modules import dirhash
from actions.terraform.program import find_program
from actions.terraform.providers import this_platform
from actions.terraform.working_directory import LOCK_FILE
from tests.terraform.stub import StubAccount, provider_program
from tests.terraform.workspaces import VARIABLES, copied_root
from tui.cli import main

BLUEPRINT = """\
schema: eksml/v1
id: images
title: A test
summary: None.
cluster: {name: images, region: us-west-2}
stages:
  - {id: registry, kind: terraform, root: registry, title: Registry, expect: 1s..2s, values: VALUES}
"""
PROGRAM = "terraform-provider-aws_v5.100.0_x5"
LOCK = """\
provider "registry.terraform.io/hashicorp/aws" {{
  version     = "5.100.0"
  constraints = "5.100.0"
  hashes = [
    "{h1}",
    "zh:{sha256}",
  ]
}}
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def releases(
    tmp_path: Path, terraform_environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Releases of the provider on this machine; gives the archive. Terraform has no configuration of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("TF_PLUGIN_CACHE_DIR", "TF_CLI_CONFIG_FILE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "releases" / "terraform-provider-aws" / "5.100.0"
    folder.mkdir(parents=True)
    archive = folder / f"terraform-provider-aws_5.100.0_{this_platform()}.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.write(provider_program(), PROGRAM)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path / "releases")))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    monkeypatch.setattr(providers, "_RELEASES", f"http://127.0.0.1:{server.server_address[1]}")
    yield archive
    server.shutdown()
    thread.join()
    server.server_close()


def a_blueprint(folder: Path, archive: Path) -> Path:
    """A blueprint with one root, whose lock file records the archive."""
    place = folder / "images"
    place.mkdir(parents=True)
    values = {name: value for name, value in VARIABLES["registry"].items() if name != "run_id"}
    (place / "blueprint.yaml").write_text(BLUEPRINT.replace("VALUES", json.dumps({**values, "run_id": "run-1"})))
    (place / "README.md").write_text("# A test\n")
    root = copied_root("registry", place / "registry")
    h1 = dirhash({PROGRAM: provider_program().read_bytes()})
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    (root / LOCK_FILE).write_text(LOCK.format(h1=h1, sha256=sha256))
    return root


async def test_an_init_needs_nothing_but_the_mirror(
    releases: Path, tmp_path: Path, account: StubAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    root = a_blueprint(tmp_path / "blueprints", releases)
    mirror = tmp_path / "mirror"
    words = ["--blueprints", str(tmp_path / "blueprints"), "mirror", "images", "--to", str(mirror)]
    assert await asyncio.to_thread(main, [*words, "--check"]) == 1
    assert "hashicorp/aws/5.100.0 for" in capsys.readouterr().err

    assert await asyncio.to_thread(main, words) == 0
    assert "hashicorp/aws 5.100.0: taken" in capsys.readouterr().out
    archive = mirror / "providers" / "registry.terraform.io" / "hashicorp" / "aws" / releases.name
    assert archive.read_bytes() == releases.read_bytes()
    releases.unlink()
    assert await asyncio.to_thread(main, words) == 0
    assert "hashicorp/aws 5.100.0: held" in capsys.readouterr().out

    program = find_program()
    assert program is not None
    environment = {"STUB_ACCOUNT": str(account.folder), "HTTPS_PROXY": "http://127.0.0.1:1"}
    driver = TerraformDriver(root, tmp_path / "work", environment, program=program, providers=mirror / "providers")
    await driver.init()
    await driver.plan(VARIABLES["registry"])
    await driver.apply()
    assert account.calls_of("aws_ecr_repository") == ["create"]
    archive.write_bytes(b"another")
    assert await asyncio.to_thread(main, words) == 1
    assert "which the lock file does not record" in capsys.readouterr().err
