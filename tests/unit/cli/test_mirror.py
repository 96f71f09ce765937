"""`eksml-tui mirror` fills a folder, and says how sure it is of each file."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

import pytest
from aiohttp import web

from tests.unit.cluster.servers import serving
from tui.cli import main

FILE = b"apiVersion: v1\nkind: Namespace\nmetadata: {name: mpi-operator}\n"
BLUEPRINT = """\
schema: eksml/v1
id: {id}
title: A test
summary: None.
cluster: {{name: test, region: us-west-2}}
parameters: {{}}
presets: {{}}
stages:
  - id: operators
    kind: manifests
    title: Operator
    help: One.
    expect: 1s..2s
    source: {{name: {id}-operator, version: 1.0.0, url: "{url}", sha256: "{sha256}", made_by: make it}}
"""


def a_blueprint(folder: Path, name: str, *, url: str = "", sha256: str = "") -> Path:
    place = folder / "blueprints" / name
    place.mkdir(parents=True)
    (place / "blueprint.yaml").write_text(BLUEPRINT.format(id=name, url=url, sha256=sha256))
    (place / "README.md").write_text("# A test\n")
    return folder / "blueprints"


async def answer(request: web.Request) -> web.StreamResponse:
    return web.Response(body=FILE) if request.path == "/file.yaml" else web.Response(status=404)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


async def run(folder: Path, *argv: str) -> int:
    """The command in a thread: it has a loop of its own."""
    words = ["--blueprints", str(folder / "blueprints"), "mirror", "--to", str(folder / "mirror"), *argv]
    return await asyncio.to_thread(main, words)


async def test_what_is_missing_is_fetched_once_and_verified_ever_after(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(answer) as address:
        a_blueprint(folder, "plain", url=f"{address}/file.yaml")
        a_blueprint(folder, "sure", url=f"{address}/file.yaml", sha256=hashlib.sha256(FILE).hexdigest())
        assert await run(folder, "plain", "sure") == 0
    first = capsys.readouterr().out.splitlines()
    assert "plain-operator 1.0.0: taken" in first[0]
    assert "UNVERIFIED: the blueprint records no sha256" in first[0]
    assert "verified against what is recorded" in first[1]
    assert await run(folder, "plain", "sure", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [(one["name"], one["state"], one["basis"]) for one in document["operators"]] == [
        ("plain-operator", "held", "first download"),
        ("sure-operator", "held", "recorded"),
    ]


async def test_one_that_fails_does_not_keep_the_others_from_coming(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(answer) as address:
        a_blueprint(folder, "fine", url=f"{address}/file.yaml")
        a_blueprint(folder, "gone", url=f"{address}/nothing.yaml")
        a_blueprint(folder, "wrong", url=f"{address}/file.yaml", sha256="0" * 64)
        assert await run(folder, "fine", "gone", "wrong") == 1
    captured = capsys.readouterr()
    assert "fine-operator 1.0.0: taken" in captured.out
    assert "HTTP 404" in captured.err
    assert "wrong-operator/1.0.0 has the sha256" in captured.err
    assert not (folder / "mirror" / "wrong-operator").exists()


async def test_a_file_can_be_given_by_hand(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_blueprint(folder, "own")
    assert await run(folder, "own", "--check") == 1
    assert "Make it with make it > FILE" in capsys.readouterr().err
    (folder / "file.yaml").write_bytes(FILE)
    assert await run(folder, "own", "--from", str(folder / "file.yaml")) == 0
    assert "UNVERIFIED: given by hand" in capsys.readouterr().out
    assert await run(folder, "own", "--check") == 0


async def test_a_wrong_name_and_a_wrong_file_are_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_blueprint(folder, "own")
    assert await run(folder, "nothing") == 2
    assert "No blueprint pins an operator 'nothing'" in capsys.readouterr().err
    assert await run(folder, "own", "--from", str(folder / "missing.yaml")) == 1
    assert "cannot be read" in capsys.readouterr().err
