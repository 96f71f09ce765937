"""The trainer's image: it has a name for each manifest that asks for one, and the programs that manifests start."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from actions.base.files import shipped_blueprints
from actions.blueprint.targets import containers_of
from tests.realnode.harness.names import HELPERS, STARTED, TRAINERS
from tests.realnode.harness.trainer import FOLDER, TrainerImage, build_trainer

BUSYBOX = "public.ecr.aws/docker/library/busybox:1.36"
"""An image of its own."""


def containers() -> Iterator[dict[str, Any]]:
    """The containers of all manifests of the blueprints."""
    for path in sorted(shipped_blueprints().glob("*/manifests/*.yaml")):
        for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield from containers_of(manifest or {})


def test_every_image_of_a_manifest_is_there() -> None:
    assert {container["image"] for container in containers()} - {*TRAINERS, *HELPERS, *STARTED} == {BUSYBOX}


def test_every_program_of_a_manifest_is_there() -> None:
    """Those that are not Debian's."""
    with tarfile.open(TrainerImage.of(FOLDER).programs_tar) as packed:
        links = {f"/{entry.name}": entry.linkname for entry in packed if entry.issym()}
        there = {f"/{name}" for name in packed.getnames()}
    words = {word for container in containers() for word in (*container.get("command", ()), *container.get("args", ()))}
    programs = {
        word for word in words if word.startswith(("/opt/amazon/efa/", "/opt/bin/", "/opt/nccl", "/workspace/"))
    }
    wanted = {program for program in programs if program.rpartition("/")[2].count(".") <= 1}
    assert wanted - there == set()
    assert links["/opt/amazon/openmpi"] == "/usr"


def test_equal_programs_make_an_equal_tar(tmp_path: Path) -> None:
    for name in ("root.tar", "root.stamp"):
        (tmp_path / name).symlink_to(FOLDER / name)
    before = build_trainer(tmp_path).programs_tar.read_bytes()
    assert build_trainer(tmp_path).programs_tar.read_bytes() == before
