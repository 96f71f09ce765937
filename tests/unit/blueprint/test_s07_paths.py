"""S7: a blueprint names files of its own folder and nothing else, however it writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import BlueprintError
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.source_files import inside
from actions.terraform.working_directory import WorkingDirectory
from tests.unit.blueprint.builders import JOB, a_blueprint

NAMES = [
    "",
    "/etc/passwd",
    "//etc/passwd",
    "..",
    "../x",
    "../../x",
    "manifests/../../x",
    "manifests/../../../etc/passwd",
    "./.././x",
    "link/passwd",
    "link/../../x",
    "https://example.com/x.yaml",
    "http://169.254.169.254/latest",
    "file:///etc/passwd",
    "s3://bucket/x",
]
"""None of them is a path inside the folder; `link` leads to `/etc`."""


@pytest.mark.parametrize("name", NAMES)
def test_s07_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "b"
    (folder / "manifests").mkdir(parents=True)
    (folder / "link").symlink_to("/etc")
    with pytest.raises(BlueprintError, match="not a path inside"):
        inside(folder, name)


@pytest.mark.parametrize("name", ["~/x", "$HOME/x", "a b", "..x", "manifests/../manifests/x", "%2e%2e/x", "C:\\x"])
def test_s07_what_only_looks_so_is_a_name_inside(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    assert inside(folder, name).is_relative_to(folder)


@pytest.mark.parametrize(
    "key", ["manifests: [manifests/job.yaml]", "root: root", "file: manifests/job.yaml, kind: Job"]
)
@pytest.mark.parametrize("name", ["../outside.yaml", "/etc/passwd", "link/outside.yaml"])
def test_s07_no_key_of_a_blueprint_leads_out_of_its_folder(tmp_path: Path, key: str, name: str) -> None:
    (tmp_path / "outside.yaml").write_text(JOB)
    told = key.replace("manifests/job.yaml", name).replace("root: root", f"root: {name}")
    folder = a_blueprint(tmp_path / "b")
    (folder / "link").symlink_to(tmp_path)
    text = (folder / "blueprint.yaml").read_text()
    assert key in text
    (folder / "blueprint.yaml").write_text(text.replace(key, told, 1))
    with pytest.raises(BlueprintError, match=r"not a path inside|not a Terraform root|not among the manifests"):
        load_blueprint(folder)


@pytest.mark.parametrize("name", ["parts.yaml", "common/parts.yaml"])
def test_s07_a_component_is_no_link_out_of_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside.yaml").write_text("rules: []\n")
    folder = a_blueprint(tmp_path / "b")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).symlink_to(tmp_path / "outside.yaml")
    path = folder / "blueprint.yaml"
    path.write_text(path.read_text() + "uses: [parts]\n")
    with pytest.raises(BlueprintError, match="not a path inside"):
        load_blueprint(folder)


def test_s07_a_root_with_a_link_is_not_copied(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "main.tf").write_text("")
    (root / "secret.json").symlink_to("/etc/passwd")
    with pytest.raises(BlueprintError, match="symbolic link"):
        WorkingDirectory(root, tmp_path / "work").prepare()
    assert not (tmp_path / "work" / "secret.json").exists()
