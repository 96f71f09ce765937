"""Archives of pinned modules stand in for registry and git: verified, and where terraform looks first."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from actions.base.errors import ConflictError, FormatError
from actions.base.files import shipped_blueprints
from actions.blueprint.source_files import git_modules
from actions.terraform import modules
from actions.terraform.modules import ModuleRelease, dirhash, install_modules, module_calls, module_releases
from actions.terraform.program import registry_of
from tests.unit.terraform.support import PROGRAM, needs_terraform

KEYS = {"README.md": b"Keys\n", "main.tf": b'output "arn" {\n  value = "key"\n}\n'}
NODES = {
    "main.tf": b'module "keys" {\n  source  = "made/keys/up"\n  version = "1.0.0"\n}\n',
    "modules/group/main.tf": b'module "inner" {\n  source = "../inner"\n}\noutput "name" {\n  value = "group"\n}\n',
    "modules/inner/main.tf": b"\n",
    "examples/all/main.tf": b"\n",
}
ROOT = """\
module "nodes" {
  source  = "made/nodes/up"
  version = "2.0.0"
}

module "group" {
  source  = "made/nodes/up//modules/group"
  version = "2.0.0"
}
"""


def an_archive(files: Mapping[str, bytes], *, prefix: str = "up-1/") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(prefix + name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


def a_release(source: str, version: str, files: Mapping[str, bytes], **calls: str) -> ModuleRelease:
    return ModuleRelease(source, version, "0" * 40, "https://example.invalid/x.tar.gz", dirhash(files), calls)


KEYS_RELEASE = a_release("made/keys/up", "1.0.0", KEYS)
NODES_RELEASE = a_release("made/nodes/up", "2.0.0", NODES, keys="made/keys/up")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root that calls two releases, both with their archives in `archives`."""
    table = {release.key: release for release in (KEYS_RELEASE, NODES_RELEASE)}
    monkeypatch.setattr(modules, "module_releases", lambda: table)
    (tmp_path / "archives").mkdir()
    for release, files in ((KEYS_RELEASE, KEYS), (NODES_RELEASE, NODES)):
        (tmp_path / "archives" / release.file_name).write_bytes(an_archive(files))
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "main.tf").write_text(ROOT)
    return tmp_path / "root"


def installed(root: Path) -> tuple[str, ...]:
    (root.parent / "work").mkdir(exist_ok=True)
    registry = registry_of(PROGRAM or Path("terraform"))
    return install_modules(root, root.parent / "work", root.parent / "archives", registry=registry)


@needs_terraform
def test_terraform_asks_neither_registry_nor_git(root: Path) -> None:
    assert installed(root) == ("made/nodes/up/2.0.0", "made/keys/up/1.0.0")
    work = root.parent / "work"
    (work / "main.tf").write_text(ROOT)
    environment = {"PATH": str(root), "HTTPS_PROXY": "http://127.0.0.1:9", "CHECKPOINT_DISABLE": "1"}
    done = subprocess.run(
        [str(PROGRAM), f"-chdir={work}", "get"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (work / ".terraform/modules/nodes.keys/main.tf").is_file()
    assert not (work / ".terraform/modules/nodes/examples").exists()


def test_without_one_archive_all_is_left_to_terraform(root: Path) -> None:
    (root.parent / "archives" / KEYS_RELEASE.file_name).unlink()
    assert installed(root) == ()
    assert not (root.parent / "work" / ".terraform").exists()


def test_modules_that_are_there_are_left_alone(root: Path) -> None:
    installed(root)
    (root.parent / "work/.terraform/modules/nodes/main.tf").write_text("# as it was\n")
    assert installed(root) == ()
    assert (root.parent / "work/.terraform/modules/nodes/main.tf").read_text() == "# as it was\n"


def test_another_file_in_an_archive_is_refused(root: Path) -> None:
    (root.parent / "archives" / KEYS_RELEASE.file_name).write_bytes(an_archive({**KEYS, "main.tf": b"# changed\n"}))
    with pytest.raises(ConflictError, match=r"files of made/keys/up/1\.0\.0 have the digest h1:"):
        installed(root)


@pytest.mark.parametrize(
    "archive",
    [
        b"",
        b"<html>",
        an_archive(KEYS)[:60],
        an_archive(KEYS, prefix=""),
        an_archive({"../../x": b""}),
        an_archive({"main.tf": b"0" * (33 << 20)}),
    ],
    ids=["empty", "page", "half", "no-folder", "leads-out", "bomb"],
)
def test_what_is_no_archive_is_refused(root: Path, archive: bytes) -> None:
    (root.parent / "archives" / KEYS_RELEASE.file_name).write_bytes(archive)
    with pytest.raises(FormatError, match="archive of made/keys/up"):
        installed(root)


def test_a_link_in_an_archive_is_refused(root: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        link = tarfile.TarInfo("up-1/main.tf")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    (root.parent / "archives" / KEYS_RELEASE.file_name).write_bytes(made.getvalue())
    with pytest.raises(FormatError, match="is not a file in it"):
        installed(root)


def test_the_digest_is_that_of_dirhash() -> None:
    """`sha256sum a b | openssl dgst -sha256 -binary | base64`, as `Hash1` of golang.org/x/mod describes itself."""
    assert dirhash({"b": b"world", "a": b"hello"}) == "h1:LA9SOxcQFeNs5FFe07rPuwc30I/D1icwPEVtfcsu/QM="


def test_every_module_that_shipped_roots_fetch_is_pinned_in_its_version() -> None:
    roots = sorted((shipped_blueprints() / "common/terraform").glob("*/main.tf"))
    called = {root.parent: module_calls(root.parent) for root in roots}
    assert sum(map(len, called.values())) >= 3
    for root, calls in called.items():
        pinned = {call.source for call in calls}
        assert {*git_modules(shipped_blueprints(), f"common/terraform/{root.name}")} <= pinned
    for release in module_releases().values():
        assert release.url.startswith("https://codeload.github.com/")
        assert release.url.endswith(f"/refs/tags/v{release.version}")
        assert re.fullmatch("[0-9a-f]{40}", release.commit)
        assert {*release.calls.values()} <= {each.source for each in module_releases().values()}
