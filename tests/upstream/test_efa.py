"""EFA and NCCL tests against the device plugin's list of instance types and the options of nccl-tests."""

from __future__ import annotations

import re

import pytest

from actions.base.files import shipped_blueprints
from actions.sandbox.programs.mpirun import request_of
from tests.unit.blueprint.shipped import object_of, shipped
from tests.upstream.sources import source


def pinned_chart(release: str) -> str:
    """The version of a Helm release in the cluster's Terraform root."""
    root = (shipped_blueprints() / "common" / "terraform" / "cluster" / "main.tf").read_text(encoding="utf-8")
    found = re.search(rf'resource "helm_release" "{release}" \{{.*?\bversion\s*=\s*"([^"]+)"', root, re.DOTALL)
    assert found
    return found[1]


@pytest.mark.parametrize("blueprint", ["efa-nccl-tests", "nemo-gpt3-5b"])
def test_the_device_plugin_runs_on_every_instance_type_that_can_be_chosen(blueprint: str) -> None:
    known = source("efa_device_plugin")["versions"][pinned_chart("efa_device_plugin")]["instance_types"]
    assert set(shipped(blueprint).parameters["instance_type"].choices) <= set(known)


def test_the_measurement_has_only_options_of_nccl_tests() -> None:
    job = object_of("efa-nccl-tests", "nccl", "MPIJob", given={}, outputs={})
    (container,) = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    words = request_of(container["args"]).command[1:]
    options = source("nccl_tests")["options"]
    assert [word for word in words[::2] if word.removeprefix("-") not in options] == []
    assert [options[word.removeprefix("-")] for word in words[::2]] == [
        "minbytes", "maxbytes", "stepfactor", "ngpus", "check", "iters",
    ]  # fmt: skip
