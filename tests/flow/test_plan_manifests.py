"""`eksml-tui plan --manifests`: the objects of a launch as files, and the folders that it refuses."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.support.program import Program

GIVEN = ("plan", "bionemo-esm1nv", "--preset", "rehearsal", "--existing-cluster", "--no-checks", "--manifests")


def test_each_object_is_a_file_below_its_stage(program: Program, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    asked = program.command("-n", "mine", *GIVEN, str(folder), "ngc_api_key=env:NGC_API_KEY")
    assert asked.returncode == 0, asked.stderr
    files = sorted(path.relative_to(folder) for path in folder.glob("*/*.yaml"))
    assert f"{len(files)} objects are in {folder}." in asked.stderr
    job = next(path for path in files if path.name.endswith("-pytorchjob-esm1nv-pretraining.yaml"))
    document = yaml.safe_load((folder / job).read_text())
    assert document["metadata"]["namespace"] == "mine"
    assert document["metadata"]["labels"]["eksml.dev/run"] == "RUN"
    secrets = [yaml.safe_load((folder / path).read_text()) for path in files if "-secret-" in path.name]
    assert "ngc-registry" in {secret["metadata"]["name"] for secret in secrets}
    assert not any({"data", "stringData"} & secret.keys() for secret in secrets)


def test_a_folder_with_something_in_it_is_refused(program: Program, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    asked = program.command(*GIVEN, str(tmp_path))
    assert (asked.returncode, asked.stdout) == (2, "")
    assert f"{tmp_path} is not empty. Name a folder that is empty, or that does not exist." in asked.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
