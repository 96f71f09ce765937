"""All that Dockerfiles take out of their base, put in and try, against the sources of the images."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath

import pytest

from tests.unit.blueprint.shipped import object_of
from tests.upstream.dockerfile import Dockerfile, dockerfile_of, imports_of, python_of
from tests.upstream.sources import source

_OUTPUTS = {"image": {"image": "registry.example/nemo-aws@sha256:" + "0" * 64}}
_SCRATCH = ("/tmp/", "/var/lib/apt/lists/")
IMAGES = ("nemo-gpt3-5b",)
"""Blueprints whose Dockerfile these rules hold for."""


@pytest.fixture
def nemo() -> Dockerfile:
    return dockerfile_of("nemo-gpt3-5b")


def removed(dockerfile: Dockerfile) -> set[PurePosixPath]:
    """Every path that a layer removes, but for its own scratch."""
    words = {word for command in dockerfile.commands() if command[0] == "rm" for word in command[1:]}
    return {PurePosixPath(word) for word in words if not word.startswith(("-", *_SCRATCH))}


@pytest.mark.parametrize("blueprint", IMAGES)
def test_an_image_ends_with_a_trial_that_imports_what_its_programs_import(blueprint: str) -> None:
    """A build that cannot train does not get as far as a push."""
    last = dockerfile_of(blueprint).instructions[-1]
    program = python_of(last)
    assert last.name == "RUN"
    assert program
    compile(program, "smoke", "exec")


@pytest.mark.parametrize("blueprint", IMAGES)
def test_package_lists_are_fetched_in_the_layer_that_installs(blueprint: str) -> None:
    """EFA's installer takes packages from Ubuntu too, and each layer removes the lists at its end."""
    for run in dockerfile_of(blueprint).named("RUN"):
        words = [" ".join(command) for command in run.commands()]
        uses = [
            index
            for index, word in enumerate(words)
            if "efa_installer.sh" in word or word.startswith("apt-get install")
        ]
        if uses:
            assert "apt-get update" in words[: uses[0]], words[uses[0]]


def test_nemos_image_loses_only_what_the_guide_takes_out(nemo: Dockerfile) -> None:
    said = source("nemo_image")["removes"]
    assert {str(path) for path in removed(nemo)} == set(said["paths"])
    assert nemo.operands("apt-get", "remove") | nemo.operands("apt-get", "purge") == set(said["packages"])


def test_nemos_image_keeps_what_nvidias_torch_is_linked_with(nemo: Dockerfile) -> None:
    kept = {PurePosixPath(path) for path in source("nemo_image")["keeps"]["paths"]}
    gone = removed(nemo)
    assert [path for path in kept if path in gone or gone & set(path.parents)] == []


def test_nemos_image_gets_what_the_guide_puts_in(nemo: Dockerfile) -> None:
    said = source("nemo_image")
    assert set(said["installs"]["packages"]) <= nemo.operands("apt-get", "install")
    assert set(said["installs"]["distributions"]) <= nemo.operands("pip", "install")
    assert said["versions"].items() <= nemo.values("ARG").items()
    assert said["environment"].items() <= nemo.values("ENV").items()
    assert nemo.values("ARG")["BASE"] == said["base"]


def test_nemos_trial_has_the_modules_of_all_its_programs_and_no_driver(nemo: Dockerfile) -> None:
    image, preparation = source("nemo_image"), source("nemo_preparation")
    needed = {*image["imports"], *preparation["imports"], *preparation["tokenisation"]["imports"]}
    tried = imports_of(python_of(nemo.instructions[-1]))
    assert {name for name in needed if not any(f"{one}.".startswith(f"{name}.") for one in tried)} == set()
    assert image["driver"]["copy"] in nemo.instructions[-1].text


def test_what_the_preparation_starts_is_in_nemos_image(nemo: Dockerfile) -> None:
    groups = object_of("nemo-gpt3-5b", "data", "MPIJob", given={}, outputs=_OUTPUTS)["spec"]["mpiReplicaSpecs"]
    pods = {name: group["template"]["spec"]["containers"][0] for name, group in groups.items()}
    assert pods["Worker"]["command"] == ["/usr/sbin/sshd"]
    assert "openssh-server" in nemo.operands("apt-get", "install")
    starts = {shlex.split(line)[0] for line in pods["Launcher"]["args"][0].split("&&")}
    assert starts == {"/opt/amazon/openmpi/bin/mpirun"}
    assert any("efa_installer.sh" in command[0] for command in nemo.commands())
