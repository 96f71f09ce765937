"""S7: a blueprint names files of its own folder and nothing else, however it writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import BlueprintError
from actions.blueprint.catalogue import load_blueprint, validate
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
    with pytest.raises(BlueprintError, match="not a path inside") as caught:
        load_blueprint(folder)
    assert path.read_text().splitlines()[caught.value.line - 1] == "uses: [parts]"
    assert caught.value.hint == "A symbolic link leads out: copy the file."


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("manifests: [manifests/job.yaml]", "manifests: [../outside.yaml]", "Name a file by its path in that folder."),
        ("manifests: [manifests/job.yaml]", "manifests: [link/outside.yaml]", "A symbolic link leads out: copy"),
        ("manifests: [manifests/job.yaml]", "manifests: [manifests/jobs.yaml]", "correct its name"),
        ("root: root", "root: /etc", "Name a file by its path"),
        ("roots: {provision: other}", "roots: {provision: link}", "A symbolic link leads out: copy"),
    ],
)
def test_s07_a_path_that_cannot_be_followed_is_one_mistake_with_its_line(
    tmp_path: Path, old: str, new: str, hint: str
) -> None:
    (tmp_path / "outside.yaml").write_text(JOB)
    folder = a_blueprint(tmp_path / "b", (old, new))
    (folder / "link").symlink_to(tmp_path)
    errors = [error for error in validate(folder) if "kubeconfig" not in error.sentence()]
    assert [error.file for error in errors] == [str(folder / "blueprint.yaml")], errors
    assert new in (folder / "blueprint.yaml").read_text().splitlines()[errors[0].line - 1]
    assert hint in errors[0].hint


def test_s07_a_root_with_a_link_is_not_copied(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "main.tf").write_text("")
    (root / "secret.json").symlink_to("/etc/passwd")
    with pytest.raises(BlueprintError, match="symbolic link"):
        WorkingDirectory(root, tmp_path / "work").prepare()
    assert not (tmp_path / "work" / "secret.json").exists()
